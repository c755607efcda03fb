"""Who becomes a member of a project without anybody adding them."""

from django.conf import settings
from django.db import models

from accounts.core.membership_rules import LONGEST_GROUP, RuleKind
from common import clock
from common.db.fields import NameField

_WITHOUT_VALUE = models.Q(kind=RuleKind.ALL.value, value="")


class MembershipRule(models.Model):
    """People of the domain whom it fits are members of the project (`accounts.tenancy.membership_sync`). A project may have many; one that
    fits is enough."""

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="rules")
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in RuleKind])
    value = NameField(max_length=LONGEST_GROUP, blank=True)

    class Meta:
        ordering = ("kind", "value")
        constraints = (
            models.UniqueConstraint(fields=("project", "kind", "value"), name="membership_rule_once"),
            models.CheckConstraint(
                condition=models.Q(kind__in=[kind.value for kind in RuleKind]),
                name="membership_rule_kind_is_known",
            ),
            models.CheckConstraint(
                condition=_WITHOUT_VALUE | (~models.Q(kind=RuleKind.ALL.value) & ~models.Q(value="")),
                name="membership_rule_says_whom",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.value}".strip()


class RuleFailure(models.Model):
    """A person who could not be made what the rules of the project say, and why; gone once they are."""

    LONGEST_REASON = 300

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="rule_failures")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    reason = models.CharField(max_length=LONGEST_REASON)
    since = models.DateTimeField(default=clock.now)
    tried_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("since", "id")
        constraints = (models.UniqueConstraint(fields=("project", "user"), name="rule_failure_once"),)

    def __str__(self) -> str:
        return f"{self.user_id} in {self.project_id}"
