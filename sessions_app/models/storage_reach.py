"""Table of which machine reaches which storage host."""

from django.db import models

from agents.models import Agent
from common import clock
from vfolders.models import StorageHost


class StorageReach(models.Model):
    """Last proof that a machine reaches a storage host; no row: not looked at yet.
    `basis` identifies the settings of the host and the boot of the machine that were proven.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="storage_reaches")
    host = models.ForeignKey(StorageHost, on_delete=models.CASCADE, related_name="reaches")
    is_reached = models.BooleanField(default=False)
    error = models.CharField(max_length=500, blank=True)
    basis = models.CharField(max_length=64)
    checked_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("host_id", "agent_id")
        constraints = (
            models.UniqueConstraint(fields=("agent", "host"), name="storage_reach_once"),
            models.CheckConstraint(
                condition=models.Q(is_reached=True, error="")
                | (models.Q(is_reached=False) & ~models.Q(error="")),
                name="storage_reach_says_why_not",
            ),
        )

    def __str__(self) -> str:
        return f"{self.host_id} from {self.agent_id}: {self.error or 'reached'}"
