"""The access log: who did what to which object, from where, with what outcome. And answers that may be asked for again."""

from django.db import models

from common import clock


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


class KeptAnswer(models.Model):
    """What was answered to a request with a key (common.idempotency). Keys are kept as hashes, secrets not at all."""

    actor_id = models.BigIntegerField()
    key_hash = models.CharField(max_length=64)
    request_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    location = models.CharField(max_length=2000, blank=True)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("actor_id", "key_hash"), name="one_answer_for_a_key_of_an_actor"),
        )

    def __str__(self) -> str:
        return f"{self.status} to {self.actor_id}"
