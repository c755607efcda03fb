"""API credentials of users."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from accounts.models.people import User
from accounts.models.policy import ResourcePolicy
from common import clock
from common.db.fields import NameField
from common.token_scopes import TokenScope


class KeyPair(models.Model):
    """API credential of a user. Its secret of 256 bits is shown once and stored as a hash."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="keypairs")
    name = NameField(max_length=60)
    access_key = models.CharField(max_length=24, unique=True)
    secret_hash = models.CharField(max_length=64)
    old_secret_hash = models.CharField(max_length=64, blank=True, default="")
    old_secret_until = models.DateTimeField(
        null=True, help_text="So long the secret before the last rotation works."
    )
    scopes = ArrayField(models.CharField(max_length=20), help_text="common.token_scopes.TokenScope each.")
    is_active = models.BooleanField(default=True)
    policy = models.ForeignKey(
        ResourcePolicy, on_delete=models.PROTECT, null=True, blank=True, related_name="keypairs"
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_used_ip = models.GenericIPAddressField(null=True, blank=True)
    shown_secret_hash = ""  # hash of this request's secret (`logins.keypair_of_token`); no column
    policy_rate: int | None = (
        None  # requests per minute that policies allow (`find_usable_keypair`); no column
    )
    central_rate: int | None = None  # limit of installation-wide policies only

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(scopes__contained_by=[scope.value for scope in TokenScope])
                & models.Q(scopes__len__gt=0),
                name="keypair_scopes_are_known",
            ),
            models.CheckConstraint(
                condition=models.Q(old_secret_hash="", old_secret_until=None)
                | (~models.Q(old_secret_hash="") & models.Q(old_secret_until__isnull=False)),
                name="keypair_old_secret_has_an_end",
            ),
        )

    @property
    def is_usable(self) -> bool:
        """True unless suspended or expired."""
        return self.is_active and (self.expires_at is None or self.expires_at > clock.now())

    def __str__(self) -> str:
        return f"{self.name} ({self.access_key})"
