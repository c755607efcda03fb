"""Preemptions of running sessions for waiting sessions of a higher priority."""

from uuid import UUID

from django.db import models
from django.db.models import F, Q


class PreemptionOutcome(models.TextChoices):
    OPEN = "", ""
    ENDED = "ended", "ended"
    SPARED = "spared", "spared"  # cancelled: the preempting session got room elsewhere, or no longer waits


class Preemption(models.Model):
    """Preemption of `session`, which ends at `ends_at` so that `by` can start on `agent`.

    Kept as history.
    """

    session = models.ForeignKey("ComputeSession", on_delete=models.CASCADE, related_name="preemptions")
    by = models.ForeignKey("ComputeSession", on_delete=models.CASCADE, related_name="preempts")
    agent = models.ForeignKey("agents.Agent", on_delete=models.CASCADE, related_name="+")
    decided_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    outcome = models.CharField(
        max_length=6, choices=PreemptionOutcome, blank=True, default=PreemptionOutcome.OPEN
    )

    class Meta:
        ordering = ("-pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("session",), condition=Q(outcome=""), name="session_leaves_for_one"
            ),
            models.CheckConstraint(condition=~Q(session=F("by")), name="preemption_for_another"),
            models.CheckConstraint(
                condition=Q(outcome__in=PreemptionOutcome.values), name="preemption_outcome_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.session_id} leaves for {self.by_id}"


def close_preemptions(session_id: UUID) -> None:
    """Close the open preemption of a session whose attempt has ended."""
    notices = Preemption.objects.filter(session=session_id, outcome=PreemptionOutcome.OPEN)
    notices.update(outcome=PreemptionOutcome.ENDED)
