"""Table of Berth's own certificate authorities, and of its SSH key."""

from django.db import models
from django.utils.translation import gettext_lazy

from common import clock


class Realm(models.TextChoices):
    """Connections for which an authority is asked; a client of one is a stranger in the other."""

    ENGINE = "engine", gettext_lazy("Docker engines")
    RELAY = "relay", gettext_lazy("Relays")


class Authority(models.Model):
    """Certificate authority that signs Berth's client certificates, with the present one of them.

    Machines accept what it signed, so its successor has a row of its own and both live until no
    machine knows the older one. Keys are encrypted (`connections.authority`), the rest is PEM.
    """

    realm = models.CharField(max_length=10, choices=Realm.choices)
    certificate = models.TextField()
    key = models.TextField()
    ends_at = models.DateTimeField()
    client_certificate = models.TextField()
    client_key = models.TextField()
    client_ends_at = models.DateTimeField()
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("-created_at", "-pk")
        verbose_name_plural = "authorities"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(realm__in=Realm.values), name="authority_realm_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.realm} until {self.ends_at:%Y-%m-%d}"


class SshKey(models.Model):
    """Key with which Berth signs in on machines by SSH; the newest one is used. `key` is encrypted."""

    public_key = models.TextField()
    key = models.TextField()
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("-created_at", "-pk")

    def __str__(self) -> str:
        return self.public_key
