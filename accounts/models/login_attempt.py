"""Attempt counts, trusted devices, and logins ended by the concurrent-login limit."""

from django.conf import settings
from django.db import models

from common import clock


class AttemptCount(models.Model):
    """Use of one rate limit, as if each attempt took its `refill`, one after the other, until
    `spent_until`. Past instants count as unused. Written only by `accounts.sign_in.throttle`.
    """

    key = models.CharField(max_length=64, primary_key=True)
    spent_until = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key[:8]} until {self.spent_until}"


class KnownPlace(models.Model):
    """Trusted device (hash of its cookie) or network of a user (`logins.trusted_devices`)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)
    seen_at = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "name"), name="known_place_once"),)
        # A sign-in by a provider begins without a user.
        indexes = (models.Index(fields=("name",), name="known_place_by_name"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.user_id}"


class EndedLogin(models.Model):
    """Login that was ended by the concurrent-login limit of the policy. Stored by the hash of its
    key, so that the browser can show the reason (`accounts.logins.concurrent_logins`).
    """

    key_hash = models.CharField(max_length=64, primary_key=True)
    allowed = models.PositiveIntegerField(help_text="Browsers at once.")
    ended_at = models.DateTimeField(default=clock.now, db_index=True)

    def __str__(self) -> str:
        return f"login that ended at {self.ended_at}"
