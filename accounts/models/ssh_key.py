"""SSH public keys of users."""

from django.conf import settings
from django.db import models

from accounts.core.ssh_key_format import MAX_LINE_LENGTH, MAX_NAME_LENGTH, TYPES
from common import clock
from common.db.fields import NameField


class SshKey(models.Model):
    """SSH public key with which its user signs in (`accounts.credentials.ssh_keys.usable_ssh_keys`).

    Unique per user only. Refusing a key of another user would reveal its owner, and would let
    anybody block a key by adding it first.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="ssh_keys")
    name = NameField(max_length=MAX_NAME_LENGTH)
    key_type = models.CharField(max_length=40)
    public_key = models.CharField(max_length=MAX_LINE_LENGTH, help_text="Type and base64, without comment.")
    fingerprint = models.CharField(max_length=50, help_text="SHA256:…, as ssh-keygen -l prints it.")
    created_at = models.DateTimeField(default=clock.now, editable=False)
    keypair = models.ForeignKey(
        "accounts.KeyPair",
        on_delete=models.CASCADE,
        null=True,
        related_name="ssh_keys",
        help_text="The token by which it was added; it opens no longer than that.",
    )
    expires_at = models.DateTimeField(null=True, help_text="With the token by which it was added.")
    last_used_at = models.DateTimeField(null=True)
    last_used_ip = models.GenericIPAddressField(null=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=("user", "fingerprint"), name="ssh_key_once_a_person"),
            models.CheckConstraint(
                condition=models.Q(key_type__in=list(TYPES)), name="ssh_key_type_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint})"
