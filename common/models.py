"""Tables of the audit log, of idempotency answers, and of the clock reading."""

from django.db import models

from common import clock


class AuditEntry(models.Model):
    """Line of the audit log. Rows are only added; a repeated refusal counts up its row
    (`fold_key`).

    `actor_*` is the real actor; `acted_as_*` the impersonated user, if any. `domain_id` is the
    domain of the object, else of the actor; null for actions of superadmins outside any domain.
    """

    class Outcome(models.TextChoices):
        DONE = "done"
        REFUSED = "refused"
        FAILED = "failed"

    recorded_at = models.DateTimeField()
    last_at = models.DateTimeField(
        null=True, help_text="Time of the last occurrence, if the entry counts several."
    )
    count = models.PositiveIntegerField(default=1)
    fold_key = models.CharField(max_length=64, blank=True, default="")
    actor_kind = models.CharField(max_length=10)
    actor_id = models.BigIntegerField(null=True)
    actor_label = models.CharField(max_length=254)
    acted_as_id = models.BigIntegerField(null=True)
    acted_as_label = models.CharField(max_length=254, blank=True, default="")
    domain_id = models.BigIntegerField(null=True)
    ip = models.CharField(max_length=45, blank=True)
    via = models.CharField(max_length=10, blank=True, default="")
    user_agent = models.CharField(max_length=200, blank=True, default="")
    request_id = models.CharField(max_length=40, blank=True)
    action = models.CharField(max_length=60)
    target_type = models.CharField(max_length=60, blank=True)
    target_id = models.CharField(max_length=60, blank=True)
    target_label = models.CharField(max_length=254, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome)
    reason = models.CharField(
        max_length=60, blank=True, default="", help_text="Error code, if the action was refused."
    )
    changes = models.JSONField(default=dict)

    class Meta:
        ordering = ("-recorded_at", "-id")
        verbose_name_plural = "audit entries"
        indexes = (
            # Covers counting, searching and ordering of the list.
            models.Index(
                fields=("-recorded_at", "-id"),
                include=("outcome", "actor_label", "target_label", "target_id", "request_id"),
                name="audit_list",
            ),
            models.Index(fields=("actor_id", "-recorded_at"), name="audit_of_actor"),
            models.Index(fields=("domain_id", "-recorded_at"), name="audit_of_domain"),
            models.Index(fields=("action", "-recorded_at"), name="audit_of_action"),
            models.Index(fields=("target_type", "target_id", "-recorded_at"), name="audit_of_target"),
            models.Index(
                fields=("acted_as_id",), name="audit_acted_as", condition=models.Q(acted_as_id__isnull=False)
            ),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("fold_key",), name="one_entry_for_what_repeats", condition=~models.Q(fold_key="")
            ),
        )

    def __str__(self) -> str:
        return f"{self.actor_label} {self.action} {self.target_label}"


class KeptAnswer(models.Model):
    """Stored response to a request with an idempotency key (common.rest.idempotency). Keys are
    stored as hashes; responses with secrets are not stored.
    """

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


class ClockReading(models.Model):
    """Single row: last offset of the wall clock to the monotonic clock (`clock.clock_offset`), the
    machine, and its monotonic time then.
    """

    machine = models.CharField(max_length=64)
    ahead_s = models.FloatField()
    looked_at_s = models.FloatField()

    class Meta:
        constraints = (models.CheckConstraint(condition=models.Q(pk=1), name="one_clock_reading"),)

    def __str__(self) -> str:
        return f"{self.machine}: {self.ahead_s:.0f} s ahead"

    @classmethod
    def has_jumped(cls) -> bool:
        """Return True if the clock of this machine jumped since the reading, so that stored timestamps
        are not shifted yet. One query.
        """
        last = cls.objects.first()
        return (
            last is not None and last.machine == clock.machine_id() and bool(clock.jump_since(last.ahead_s))
        )
