"""Tables of tick records and of the pending reasons of each session."""

from typing import Any

from django.db import models

from agents.models import ResourceGroup
from common import clock
from common.db.fields import StoredMessageField
from sessions_app.models import ComputeSession


class KeptTick(models.Model):
    """Record of one tick that decided something new. Times are in microseconds."""

    group = models.ForeignKey(ResourceGroup, on_delete=models.CASCADE, related_name="kept_ticks")
    planned_at = models.DateTimeField()
    epoch = models.PositiveBigIntegerField()
    read_us = models.PositiveIntegerField()
    decide_us = models.PositiveIntegerField()
    commit_us = models.PositiveIntegerField()
    placed = models.PositiveIntegerField()
    waiting = models.PositiveIntegerField()
    reasons = models.JSONField(default=dict, help_text="How many went on waiting, by reason code.")
    placements = models.JSONField(
        default=list, help_text="The first of those placed: session, and the agent of each of its containers."
    )
    reservations = models.JSONField(default=list, help_text="For whom room was kept: session, agents, until.")
    picture = models.BinaryField(null=True, help_text="What it saw (`packing`).")
    picture_bytes = models.PositiveIntegerField(default=0)
    digest = models.CharField(
        max_length=64, blank=True, help_text="Of all it decided, where it has a picture."
    )

    class Meta:
        ordering = ("-planned_at", "-id")
        indexes = (
            models.Index(fields=("group", "-planned_at"), name="tick_of_group"),
            models.Index(
                fields=("group", "-planned_at"),
                condition=models.Q(picture_bytes__gt=0),
                name="tick_with_picture",
            ),
            models.Index(fields=("planned_at",), name="tick_age"),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(picture=None, picture_bytes=0)
                | models.Q(picture_bytes__gt=0, picture__isnull=False),
                name="tick_counts_its_picture",
            ),
        )

    def __str__(self) -> str:
        return f"tick of {self.group_id} at {self.planned_at}"

    @property
    def took_us(self) -> Any:
        return self.read_us + self.decide_us + self.commit_us


class WaitingReason(models.Model):
    """Reason for which a session was pending from `since` on; `number` counts up per session. Only
    the newest are kept. `position` is 0 while a hold kept the session out of the queue.
    """

    session = models.ForeignKey(ComputeSession, on_delete=models.CASCADE, related_name="waiting_reasons")
    number = models.PositiveIntegerField()
    since = models.DateTimeField(default=clock.now)
    reason = models.CharField(max_length=40)
    message = StoredMessageField()
    position = models.PositiveIntegerField()

    class Meta:
        ordering = ("session", "number")
        constraints = (models.UniqueConstraint(fields=("session", "number"), name="waiting_reason_once"),)

    def __str__(self) -> str:
        return f"{self.session_id} waits for {self.reason}"
