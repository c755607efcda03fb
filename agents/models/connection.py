"""Values of `Agent.connection`: how Berth is let in by an engine."""

from enum import StrEnum
from functools import lru_cache
from typing import Any

from agents.runtime.endpoints import write_tls_files
from agents.runtime.port import Credentials, PlainText, SshMaterial
from common.i18n import gettext_noop
from common.values.encryption import Undecipherable, decrypt

KEYS = "keys of connections"
"""Purpose for which private keys are encrypted."""


class ConnectionKind(StrEnum):
    LOCAL = ""
    CERTIFICATES = "certificates"  # of the administrator: ca, certificate, key
    ISSUED = "issued"  # by Berth: the same, authority (its id), ends_at (of the machine's certificate)
    SSH = "ssh"  # key, host_key
    PLAIN = "plain"  # nothing at all


KIND_TITLES = {
    ConnectionKind.LOCAL: gettext_noop("Local socket"),
    ConnectionKind.CERTIFICATES: gettext_noop("Own certificates"),
    ConnectionKind.ISSUED: gettext_noop("Certificates issued by Berth"),
    ConnectionKind.SSH: gettext_noop("SSH"),
    ConnectionKind.PLAIN: gettext_noop("Plain text, without any protection"),
}


def credentials_of(connection: dict[str, Any]) -> Credentials | None:
    """Return what a runtime needs. None for a local socket, and if keys cannot be decrypted, so that
    the runtime refuses a network address.
    """
    kind = connection.get("kind", ConnectionKind.LOCAL)
    if kind == ConnectionKind.PLAIN:
        return PlainText()
    try:
        if kind in (ConnectionKind.CERTIFICATES, ConnectionKind.ISSUED):
            return write_tls_files(connection["ca"], connection["certificate"], _decrypted(connection["key"]))
        if kind == ConnectionKind.SSH:
            return SshMaterial(host_key=connection["host_key"], key=_decrypted(connection["key"]))
    except (Undecipherable, KeyError):
        return None
    return None


@lru_cache(maxsize=4096)
def _decrypted(key: str) -> str:
    return decrypt(KEYS, key)
