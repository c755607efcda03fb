"""What is kept of attempts to come in, of where that succeeded, and of logins that gave way to another."""

from django.conf import settings
from django.db import models

from common import clock


class AttemptCount(models.Model):
    """How much of one rate is used up: as if each attempt took its `refill`, one after the other, until `spent_until`. What
    lies in the past counts nothing. Only `accounts.sign_in.throttle` writes it."""

    key = models.CharField(max_length=64, primary_key=True)
    spent_until = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key[:8]} until {self.spent_until}"


class KnownPlace(models.Model):
    """A browser (by the hash of its cookie) or a network in which this person was signed in. `accounts.logins.trusted_devices`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)
    seen_at = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "name"), name="known_place_once"),)
        # Who begins a sign-in by a provider is nobody yet.
        indexes = (models.Index(fields=("name",), name="known_place_by_name"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.user_id}"


class EndedLogin(models.Model):
    """A login that ended because its person signed in once more than their policy allows; by the hash of its key, so that its
    browser can say why. `accounts.logins.concurrent_logins`."""

    key_hash = models.CharField(max_length=64, primary_key=True)
    allowed = models.PositiveIntegerField(help_text="Browsers at once.")
    ended_at = models.DateTimeField(default=clock.now, db_index=True)

    def __str__(self) -> str:
        return f"login that ended at {self.ended_at}"
