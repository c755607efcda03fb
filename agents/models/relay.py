"""Table of relays: how the gateway reaches the sessions of a remote machine."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy


class RelayRoute(models.TextChoices):
    """Way of the gateway to the containers of a remote machine."""

    RELAY = "relay", gettext_lazy("Relay")
    TUNNEL = "tunnel", gettext_lazy("Tunnel through the engine")


class AgentRelay(models.Model):
    """Relay of one remote machine, at `host`:`port`, with its certificate.

    `route` is the way that worked at the last check, `error` why that is not the relay, in an
    administrator's words. `checked_at` is None before the first check. `authority` and `certificate` are
    PEM, `key` is encrypted.
    """

    agent = models.OneToOneField(
        "agents.Agent", on_delete=models.CASCADE, primary_key=True, related_name="relay"
    )
    route = models.CharField(max_length=10, choices=RelayRoute.choices, default=RelayRoute.RELAY)
    host = models.CharField(max_length=255, blank=True)
    port = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=500, blank=True)
    checked_at = models.DateTimeField(null=True)
    authority = models.TextField()
    certificate = models.TextField()
    key = models.TextField()
    ends_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(route__in=RelayRoute.values), name="relay_route_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.route} to {self.agent_id}"
