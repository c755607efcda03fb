"""Table of images that are brought to agents."""

from datetime import timedelta
from typing import ClassVar, Self

from django.db import models
from django.db.models import Q

from agents.models.agent import Agent
from common import clock

TIME_LIMIT = timedelta(hours=1)
"""Time after the request at which a transfer fails."""


class ImageTransferQuerySet(models.QuerySet["ImageTransfer"]):
    def active(self) -> Self:
        """Transfers that wait or are under way."""
        return self.filter(ended_at=None)


class ImageTransfer(models.Model):
    """An image that is brought to an agent, or was: from a registry, or from the agent `source`.

    There is one at a time for an agent and a reference. `total_bytes` is 0 until it is known. A
    transfer with an end and no error succeeded; `error_code` is the code of the RuntimeFault.
    `requested_by` is "" for sessions.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="image_transfers")
    reference = models.CharField(max_length=255)
    source = models.ForeignKey(Agent, on_delete=models.SET_NULL, null=True, related_name="+")
    done_bytes = models.BigIntegerField(default=0)
    total_bytes = models.BigIntegerField(default=0)
    error = models.CharField(max_length=500, blank=True)
    error_code = models.CharField(max_length=40, blank=True)
    requested_by = models.CharField(max_length=255, blank=True)
    requested_at = models.DateTimeField(default=clock.now)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects: ClassVar = ImageTransferQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        indexes = (models.Index(fields=("reference", "-id"), name="image_transfer_reference"),)
        constraints = (
            models.UniqueConstraint(
                fields=("agent", "reference"), condition=Q(ended_at=None), name="image_transfer_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.reference} to {self.agent_id}"

    @property
    def state(self) -> str:
        """Return waiting, running, done or failed."""
        if self.ended_at is not None:
            return "failed" if self.error else "done"
        return "running" if self.started_at else "waiting"
