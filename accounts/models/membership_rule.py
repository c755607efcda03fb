"""Membership rules of projects and their failures."""

from django.conf import settings
from django.db import models

from accounts.core.membership_rules import LONGEST_GROUP, RuleKind
from common import clock
from common.db.fields import NameField

_WITHOUT_VALUE = models.Q(kind=RuleKind.ALL.value, value="")


class MembershipRule(models.Model):
    """Rule that makes matching users of the domain members of the project
    (`accounts.tenancy.membership_sync`). Of several rules one match suffices.
    """

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
    """User to whom a project's rules could not be applied yet, with the reason."""

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
