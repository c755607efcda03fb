"""Tables of resource groups: sets of agents with scheduling policy, limits and access grants."""

from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.limits import HIGHEST_PRIORITY
from accounts.core.utilization import (
    LEAST_GRACE_S,
    LEAST_WINDOW_S,
    MOST_PERCENT,
    MOST_WINDOW_S,
    UtilizationRule,
)
from accounts.models import UTILIZATION_RULES, Domain, Project, User, name_validator
from agents.core.group_limits import validate_limits
from agents.core.sandboxes import SANDBOX_TITLES, Sandbox
from common import clock
from common.values.resources import MAX_AMOUNT, is_slot_name

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

LEAST_HALF_LIFE_S, MOST_HALF_LIFE_S = 600, 366 * 86400
MOST_NOTICE_S = 3600
LEAST_SPAN_S = 60
"""Shortest lifetime and idle timeout, in seconds."""
MOST_OVERCOMMIT = 10


class Strategy(models.TextChoices):
    """Choice among agents with free capacity: the fullest, the emptiest, or one after the other."""

    CONCENTRATED = "concentrated", gettext_lazy("Concentrated")
    DISPERSED = "dispersed", gettext_lazy("Dispersed")
    ROUND_ROBIN = "round_robin", gettext_lazy("Round-robin")


class Scheduler(models.TextChoices):
    """Order in which pending sessions are considered."""

    FIFO = "fifo", gettext_lazy("First in, first out")
    LIFO = "lifo", gettext_lazy("Last in, first out")
    DRF = "drf", gettext_lazy("Dominant resource fairness")
    FAIR_SHARE = "fair_share", gettext_lazy("Fair share")


class SessionType(models.TextChoices):
    INTERACTIVE = "interactive", gettext_lazy("Interactive")
    BATCH = "batch", gettext_lazy("Batch")


def every_session_type() -> list[str]:
    return list(SessionType.values)


def _span(
    name: "_StrPromise", help_text: "_StrPromise"
) -> "models.PositiveIntegerField[int | None, int | None]":
    return models.PositiveIntegerField(
        name, null=True, blank=True, validators=[MinValueValidator(LEAST_SPAN_S)], help_text=help_text
    )


def _percent(name: "_StrPromise") -> "models.PositiveSmallIntegerField[int | None, int | None]":
    return models.PositiveSmallIntegerField(
        name,
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_PERCENT)],
        help_text=gettext_lazy("Percent of the allocation of a session. Empty: as policies say."),
    )


def _factor(name: "_StrPromise", help_text: "_StrPromise") -> "models.DecimalField[Decimal, Decimal]":
    return models.DecimalField(
        name,
        max_digits=4,
        decimal_places=2,
        default=Decimal(1),
        db_default=Decimal(1),
        validators=[MinValueValidator(1), MaxValueValidator(MOST_OVERCOMMIT)],
        help_text=help_text,
    )


class ResourceGroupQuerySet(models.QuerySet["ResourceGroup"]):
    def present(self) -> "ResourceGroupQuerySet":
        """Groups that are not deleted."""
        return self.filter(deleted_at=None)


class ResourceGroup(models.Model):
    """A set of agents and the policy by which sessions are placed on them. A deleted group stays as
    a row for history; its name can be used again.
    """

    name = models.CharField(max_length=64, validators=[name_validator])
    description = models.CharField(max_length=500, blank=True)
    is_default = models.BooleanField(default=False)
    is_active = models.BooleanField(
        default=True, help_text=gettext_lazy("A paused group accepts requests, but starts no sessions.")
    )
    is_public = models.BooleanField(
        default=True,
        help_text=gettext_lazy("Everybody may use the group; otherwise only holders of a grant."),
    )
    strategy = models.CharField(max_length=20, choices=Strategy.choices, default=Strategy.CONCENTRATED)
    scheduler = models.CharField(max_length=20, choices=Scheduler.choices, default=Scheduler.FIFO)
    ageing_s = models.PositiveIntegerField(
        gettext_lazy("Ageing"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=gettext_lazy(
            "Seconds of waiting that raise a session's priority by one. Empty: no ageing."
        ),
    )
    patience_s = models.PositiveIntegerField(
        gettext_lazy("Wait before a backfill reservation"),
        default=600,
        help_text=gettext_lazy(
            "Seconds of waiting after which capacity is reserved for the first session that "
            "does not fit. If its start can be predicted, capacity is reserved at once."
        ),
    )
    usage_half_life_s = models.PositiveIntegerField(
        gettext_lazy("Fair-share half-life"),
        default=7 * 86400,
        validators=[MinValueValidator(LEAST_HALF_LIFE_S), MaxValueValidator(MOST_HALF_LIFE_S)],
        help_text=gettext_lazy("Seconds after which past use counts half, for fair share only."),
    )
    preemptible_priority = models.SmallIntegerField(
        gettext_lazy("Preemption up to priority"),
        null=True,
        blank=True,
        validators=[MinValueValidator(-HIGHEST_PRIORITY), MaxValueValidator(HIGHEST_PRIORITY)],
        help_text=gettext_lazy(
            "Sessions of this priority or lower are preempted if a session of higher priority "
            "does not fit. Empty: no preemption."
        ),
    )
    preemption_after_s = models.PositiveIntegerField(
        gettext_lazy("Minimum run time before preemption"),
        default=600,
        help_text=gettext_lazy("Seconds that a session runs at least before it can be preempted."),
    )
    preemption_grace_s = models.PositiveIntegerField(
        gettext_lazy("Warning before preemption"),
        default=60,
        validators=[MaxValueValidator(MOST_NOTICE_S)],
        help_text=gettext_lazy("Seconds between the warning of the owner and the preemption."),
    )
    session_types = ArrayField(
        models.CharField(max_length=12, choices=SessionType),
        default=every_session_type,
        help_text=gettext_lazy("Types of sessions that it accepts."),
    )
    max_session_slots = models.JSONField(
        default=dict,
        blank=True,
        help_text=gettext_lazy(
            "Maximum that one session may request; slots that are not named are unlimited."
        ),
    )
    limits = models.JSONField(
        default=list,
        blank=True,
        help_text=gettext_lazy(
            "Limits for all sessions together and for each user, always or at certain hours."
        ),
    )
    max_lifetime_s = _span(gettext_lazy("Lifetime"), gettext_lazy("Seconds that a session runs at most."))
    max_idle_s = _span(
        gettext_lazy("Idle timeout"),
        gettext_lazy("Seconds without user activity after which an interactive session ends."),
    )
    min_cpu_percent = _percent(gettext_lazy("Minimum CPU utilization"))
    min_mem_percent = _percent(gettext_lazy("Minimum memory utilization"))
    min_device_percent = _percent(gettext_lazy("Minimum accelerator utilization"))
    min_device_mem_percent = _percent(gettext_lazy("Minimum accelerator memory utilization"))
    use_rule = models.CharField(
        gettext_lazy("Utilization is low if"),
        max_length=3,
        choices=UTILIZATION_RULES,
        default=UtilizationRule.ALL.value,
    )
    use_window_s = models.PositiveIntegerField(
        gettext_lazy("Window"),
        default=3600,
        validators=[MinValueValidator(LEAST_WINDOW_S), MaxValueValidator(MOST_WINDOW_S)],
        help_text=gettext_lazy("Period in seconds over which utilization is averaged."),
    )
    use_grace_s = models.PositiveIntegerField(
        gettext_lazy("Grace"),
        default=3600,
        validators=[MinValueValidator(LEAST_GRACE_S)],
        help_text=gettext_lazy(
            "Seconds between the detection of low utilization and the end of the session."
        ),
    )
    ends_idle_batch = models.BooleanField(
        gettext_lazy("Batch too"),
        default=False,
        help_text=gettext_lazy(
            "Batch sessions end for low utilization as well; no user activity is expected in them."
        ),
    )
    max_extensions = models.PositiveIntegerField(
        gettext_lazy("Extensions"),
        default=3,
        help_text=gettext_lazy("Number of times that a session may be extended."),
    )
    extension_s = models.PositiveIntegerField(
        gettext_lazy("Length of an extension"),
        default=3600,
        help_text=gettext_lazy("Seconds by which one extension postpones the end."),
    )
    cpu_overcommit = _factor(
        gettext_lazy("CPU over-commit"),
        gettext_lazy(
            "So many times the cores of a machine are allocated to all sessions together. One "
            "session gets no more than the machine has."
        ),
    )
    mem_overcommit = _factor(
        gettext_lazy("Memory over-commit"),
        gettext_lazy(
            "Like CPU over-commit, for memory. Where sessions then use more than there is, some "
            "of them are killed."
        ),
    )
    allows_rdma = models.BooleanField(
        gettext_lazy("RDMA"),
        default=False,
        db_default=False,
        help_text=gettext_lazy(
            "Sessions with accelerators get the InfiniBand and RoCE devices of their machine (also GDRCopy), "
            "and may lock any amount of memory. Traffic over them is not separated between sessions."
        ),
    )
    allows_gpudirect_storage = models.BooleanField(
        gettext_lazy("GPUDirect Storage"),
        default=False,
        db_default=False,
        help_text=gettext_lazy(
            "Sessions with accelerators get the nvidia-fs devices of their machine, which read and write "
            "its disks directly."
        ),
    )
    sandbox = models.CharField(
        gettext_lazy("Sandbox"),
        max_length=10,
        choices=[(sandbox.value, gettext_lazy(title)) for sandbox, title in SANDBOX_TITLES.items()],
        default=Sandbox.RUNC.value,
        db_default=Sandbox.RUNC.value,
        help_text=gettext_lazy(
            "What separates sessions from the kernel of their machine. Machines without it get none of the "
            "group’s sessions; only runc gives accelerators."
        ),
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    deleted_at = models.DateTimeField(null=True, editable=False)

    objects: ClassVar = ResourceGroupQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(
                fields=("name",),
                condition=Q(deleted_at=None),
                name="resource_group_name_once",
            ),
            models.UniqueConstraint(
                fields=("is_default",),
                condition=Q(is_default=True),
                name="one_default_resource_group",
                violation_error_message=gettext_lazy("There is a default resource group already."),
            ),
            models.CheckConstraint(
                condition=Q(strategy__in=Strategy.values), name="resource_group_strategy_is_known"
            ),
            models.CheckConstraint(
                condition=Q(sandbox__in=[sandbox.value for sandbox in Sandbox]),
                name="resource_group_sandbox_is_known",
            ),
            models.CheckConstraint(
                condition=Q(scheduler__in=Scheduler.values), name="resource_group_scheduler_is_known"
            ),
            models.CheckConstraint(
                condition=Q(use_rule__in=[rule.value for rule in UtilizationRule]),
                name="resource_group_use_rule_is_known",
            ),
            models.CheckConstraint(
                condition=(Q(max_lifetime_s=None) | Q(max_lifetime_s__gt=0))
                & (Q(max_idle_s=None) | Q(max_idle_s__gt=0)),
                name="resource_group_ends_take_time",
            ),
            models.CheckConstraint(
                condition=Q(ageing_s__isnull=True) | Q(ageing_s__gt=0),
                name="resource_group_ageing_takes_time",
            ),
            models.CheckConstraint(
                condition=Q(usage_half_life_s__gt=0), name="resource_group_use_halves_in_time"
            ),
            models.CheckConstraint(
                condition=Q(session_types__contained_by=SessionType.values) & Q(session_types__len__gt=0),
                name="resource_group_takes_known_types",
            ),
            models.CheckConstraint(
                condition=Q(
                    cpu_overcommit__gte=1,
                    cpu_overcommit__lte=MOST_OVERCOMMIT,
                    mem_overcommit__gte=1,
                    mem_overcommit__lte=MOST_OVERCOMMIT,
                ),
                name="resource_group_overcommits_up_to_ten_times",
            ),
            models.CheckConstraint(
                condition=Q(deleted_at=None) | Q(is_default=False, is_active=False),
                name="resource_group_deleted_is_idle",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Check that the name is free, and that amounts and limits are valid.
        Raises ValidationError.
        """
        if ResourceGroup.objects.present().filter(name=self.name).exclude(pk=self.pk).exists():
            raise ValidationError({"name": _("Another resource group has this name.")})
        if not all(
            is_slot_name(name) and 0 <= most <= MAX_AMOUNT for name, most in self.max_session_slots.items()
        ):
            raise ValidationError({"max_session_slots": _("Give an amount for each slot.")})
        try:
            self.limits = validate_limits(self.limits, SessionType.values)
        except ValueError as fault:
            raise ValidationError({"limits": str(fault)}) from fault


class GroupGrant(models.Model):
    """Permission of a domain, project or user to use a resource group that is not public. A grant
    to a domain or project covers the sessions in it; a grant to a user covers all of that user's
    sessions.
    """

    group = models.ForeignKey(ResourceGroup, on_delete=models.CASCADE, related_name="grants")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(domain__isnull=False, project=None, user=None)
                | Q(domain=None, project__isnull=False, user=None)
                | Q(domain=None, project=None, user__isnull=False),
                name="group_grant_is_to_one",
            ),
            models.UniqueConstraint(fields=("group", "domain"), name="group_grant_once_to_domain"),
            models.UniqueConstraint(fields=("group", "project"), name="group_grant_once_to_project"),
            models.UniqueConstraint(fields=("group", "user"), name="group_grant_once_to_user"),
        )

    def __str__(self) -> str:
        return f"{self.group} for {self.grantee}"

    @property
    def grantee(self) -> Domain | Project | User:
        found = self.domain or self.project or self.user
        assert found is not None
        return found
