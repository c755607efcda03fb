"""Pooled networks, created before sessions need them."""

import uuid

from django.db import models
from django.db.models import Q

from agents.models import Agent
from common import clock


class PooledNetwork(models.Model):
    """Pooled network on one machine (`launch/network_pool.py`).

    The session that takes it keeps it to its end; it is never reused.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="pooled_networks")
    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, null=True, related_name="pooled_networks"
    )
    is_ready = models.BooleanField(default=False)
    made_at = models.DateTimeField(default=clock.now)

    class Meta:
        db_table = "sessions_app_mooring"
        constraints = (
            models.UniqueConstraint(fields=("session", "agent"), name="one_mooring_of_session_and_agent"),
        )
        indexes = (models.Index(fields=("agent", "made_at"), condition=Q(session=None), name="mooring_free"),)

    def __str__(self) -> str:
        return f"{self.pk} on {self.agent_id}"
