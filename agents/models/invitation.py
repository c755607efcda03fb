"""Table of machines whose certificates Berth issued and whose engines have not answered yet."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from accounts.models import name_validator
from agents.models.agent import Agent
from agents.models.resource_group import ResourceGroup
from common import clock


class MachineInvitation(models.Model):
    """Machine that is to fetch its certificate with a token, once; `token_hash` is "" afterwards.

    The machine becomes an agent when its engine answers. For a known `agent`, a certificate that was
    issued again. `connection` is what the agent gets; keys are encrypted, and that of the machine is
    forgotten when it was fetched.
    """

    name = models.CharField(max_length=64, unique=True, validators=[name_validator])
    agent = models.OneToOneField(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="invitation"
    )
    address = models.CharField(max_length=255)
    resource_group = models.ForeignKey(ResourceGroup, on_delete=models.CASCADE, related_name="+")
    connection = models.JSONField()
    certificate = models.TextField()
    key = models.TextField(blank=True)
    token_hash = models.CharField(max_length=64, blank=True)
    token_ends_at = models.DateTimeField()
    fetched_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(
                fields=("token_hash",), condition=~Q(token_hash=""), name="invitation_token_once"
            ),
        )

    def __str__(self) -> str:
        return self.name

    def is_open_at(self, now: datetime) -> bool:
        """Return True if the machine can still fetch its certificate."""
        return bool(self.token_hash) and now < self.token_ends_at
