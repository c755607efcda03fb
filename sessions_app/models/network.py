"""Networks of sessions: pooled ones, created before sessions need them, and those across machines."""

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


class ClusterNetwork(models.Model):
    """Network of a session whose containers are on several machines (`launch/cluster_network.py`).

    `number` is the place of its subnet in the pool, free again when the row is deleted with the end
    of the containers. The VNI follows from the row's id, so a machine that was lost never gets
    frames of another session.
    """

    session = models.OneToOneField(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, related_name="cluster_network"
    )
    number = models.PositiveIntegerField(unique=True)

    def __str__(self) -> str:
        return f"network {self.number} of {self.session_id}"
