"""The access log: who did what to which object, from where, with what outcome."""

from django.db import models


class AuditEntry(models.Model):
    """One line of the access log. Rows are only ever added."""

    class Outcome(models.TextChoices):
        DONE = "done"
        REFUSED = "refused"

    recorded_at = models.DateTimeField(db_index=True)
    actor_kind = models.CharField(max_length=10)
    actor_id = models.BigIntegerField(null=True, db_index=True)
    actor_label = models.CharField(max_length=254)
    domain_id = models.BigIntegerField(null=True, db_index=True)
    ip = models.CharField(max_length=45, blank=True)
    request_id = models.CharField(max_length=40, blank=True)
    action = models.CharField(max_length=60)
    target_type = models.CharField(max_length=60, blank=True)
    target_id = models.CharField(max_length=60, blank=True)
    target_label = models.CharField(max_length=254, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome)
    changes = models.JSONField(default=dict)

    class Meta:
        ordering = ("-recorded_at", "-id")
        verbose_name_plural = "audit entries"
        indexes = (models.Index(fields=("target_type", "target_id"), name="audit_target"),)

    def __str__(self) -> str:
        return f"{self.actor_label} {self.action} {self.target_label}"
