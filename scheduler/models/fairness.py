"""Tables of the run state and of fair share: scheduler state, decayed use, share weights."""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from accounts.models import Domain, Project, User
from agents.models import ResourceGroup

LEAST_WEIGHT, MOST_WEIGHT = Decimal("0.001"), Decimal(1000)


class SchedulerState(models.Model):
    """Run state of the scheduler in one resource group: results of the last committed plan for the
    next. Created on demand; a missing row means the defaults.
    """

    group = models.OneToOneField(
        ResourceGroup, on_delete=models.CASCADE, primary_key=True, related_name="scheduler_state"
    )
    epoch = models.BigIntegerField(
        default=0, help_text="Number of committed plans and of changes that discard plans."
    )
    last_agent_id = models.BigIntegerField(
        default=0, help_text="Agent that was given a container last; round-robin goes on behind it."
    )
    head_ids = ArrayField(
        models.UUIDField(),
        default=list,
        help_text="Waiting sessions for which capacity was reserved, in the order in which they are tried first.",
    )
    gathered = models.JSONField(
        default=list,
        help_text="Where capacity is gathered for sessions whose start cannot be predicted.",
    )

    def __str__(self) -> str:
        return f"epoch {self.epoch} of resource group {self.group_id}"


class DecayedUse(models.Model):
    """Decayed average of a slot that ended sessions of one user in one project had allocated in a
    resource group, in base units; weight halves with each half-life of the group. Written only by a
    trigger on deletes of allocation rows. No foreign keys: readers skip deleted users and projects.
    """

    group_id = models.BigIntegerField()
    project_id = models.BigIntegerField()
    user_id = models.BigIntegerField()
    slot_name = models.CharField(max_length=32)
    average = models.FloatField()
    as_of = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("group_id", "project_id", "user_id", "slot_name"), name="decayed_use_once"
            ),
            models.CheckConstraint(condition=Q(average__gte=0), name="decayed_use_is_no_debt"),
        )

    def __str__(self) -> str:
        return f"{self.average} {self.slot_name} as of {self.as_of}"


class ShareWeight(models.Model):
    """Fair-share weight of a domain, project or user in a resource group: twice the weight, twice
    the share. Without a row the weight is 1.
    """

    group = models.ForeignKey(ResourceGroup, on_delete=models.CASCADE, related_name="share_weights")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    weight = models.DecimalField(
        gettext_lazy("Weight"),
        max_digits=7,
        decimal_places=3,
        validators=[MinValueValidator(LEAST_WEIGHT), MaxValueValidator(MOST_WEIGHT)],
    )

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(weight__gt=0) & Q(weight__lte=MOST_WEIGHT), name="share_weight_is_above_0"
            ),
            models.CheckConstraint(
                condition=Q(domain__isnull=False, project=None, user=None)
                | Q(domain=None, project__isnull=False, user=None)
                | Q(domain=None, project=None, user__isnull=False),
                name="share_weight_is_of_one",
            ),
            models.UniqueConstraint(fields=("group", "domain"), name="share_weight_once_of_domain"),
            models.UniqueConstraint(fields=("group", "project"), name="share_weight_once_of_project"),
            models.UniqueConstraint(fields=("group", "user"), name="share_weight_once_of_user"),
        )

    def __str__(self) -> str:
        return f"{self.weight} in {self.group_id}"
