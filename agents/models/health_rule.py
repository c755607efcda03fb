"""Table of the health rules of accelerators that administrators changed."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from common import clock


class HealthAction(models.TextChoices):
    IGNORE = "ignore", gettext_lazy("Ignore")
    WARN = "warn", gettext_lazy("Warn")
    QUARANTINE = "quarantine", gettext_lazy("Quarantine")


class HealthOverride(models.Model):
    """Action of a rule instead of that in the vendor's description. `rule` is a name of
    `agents.accelerators.health.rule_actions`.
    """

    vendor = models.CharField(max_length=40)
    rule = models.CharField(max_length=60)
    action = models.CharField(max_length=10, choices=HealthAction.choices)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    changed_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("vendor", "rule")
        constraints = (
            models.UniqueConstraint(fields=("vendor", "rule"), name="health_override_once"),
            models.CheckConstraint(
                condition=Q(action__in=HealthAction.values), name="health_override_action_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.vendor} {self.rule}: {self.action}"
