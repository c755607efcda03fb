"""The SSH public keys of people."""

from django.conf import settings
from django.db import models

from accounts.core.ssh_key_format import MAX_LINE_LENGTH, MAX_NAME_LENGTH, TYPES
from common import clock
from common.db.fields import NameField


class SshKey(models.Model):
    """With the private half its person will sign in by SSH (`accounts.credentials.ssh_keys.keys_of`).

    One person has a key once. Another one may have the same: were that refused, anybody could learn whose key one is, and take
    it from them by adding it first.
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
