"""Berth's own SSH key, with which it signs in on machines."""

import asyncssh
from django.conf import settings
from django.db import transaction

from agents.models import SshKey
from agents.models.connection import KEYS
from common.db.advisory_locks import lock_exclusive
from common.values.encryption import encrypt

LOCK_WAIT_S = 10.0


@transaction.atomic
def own_ssh_key() -> SshKey:
    """Return Berth's key, which is made at the first use. `public_key` goes into the machine's
    ~/.ssh/authorized_keys; `key` is encrypted.
    """
    if known := SshKey.objects.first():
        return known
    lock_exclusive("agents.connections.ssh_keys", wait_s=LOCK_WAIT_S)
    if known := SshKey.objects.first():
        return known
    key = asyncssh.generate_private_key("ssh-ed25519", comment=f"berth-{settings.BERTH_INSTALLATION}")
    return SshKey.objects.create(
        public_key=key.export_public_key().decode().strip(),
        key=encrypt(KEYS, key.export_private_key().decode()),
    )
