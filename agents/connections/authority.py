"""Berth's own certificate authorities, and the certificates that they issue.

A client of Berth is signed by the authority of its realm, which machines trust. A machine's server
certificate is signed by an authority made for it alone, whose key is forgotten at once: no machine
can take the place of another, and whoever stops trusting that authority has revoked the certificate.
"""

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from agents.connections.certificates import Issued, make_authority, sign_client, sign_server
from agents.models import Authority, Realm
from agents.models.connection import KEYS
from common import clock
from common.db.advisory_locks import lock_exclusive
from common.values.encryption import decrypt, encrypt

AUTHORITY_LIFETIME = timedelta(days=3650)
SUCCESSOR_BEFORE = timedelta(days=2 * 365)
"""Time before the end of an authority at which its successor is made: as long as the certificates of
machines last, so that each machine learns the successor when its own is issued again.
"""
SERVER_LIFETIME = timedelta(days=730)
CLIENT_LIFETIME = timedelta(days=90)
RENEWED_BEFORE = timedelta(days=30)
LOCK_WAIT_S = 10.0


def issue_server(names: Sequence[str]) -> Issued:
    """Return a new certificate for a server with these host names or IP addresses, for two years.
    Clients must trust `.authority`, an authority that never signs anything else. Raises ValueError.
    """
    once = make_authority(f"Berth machine {names[0] if names else ''}", clock.now(), SERVER_LIFETIME)
    return sign_server(once, names, clock.now(), SERVER_LIFETIME)


def issue_client(name: str, realm: Realm) -> Issued:
    """Return a new certificate for a client, for 90 days. Servers must trust `.authority`."""
    return sign_client(_signer(current_authority(realm)), name, clock.now(), CLIENT_LIFETIME)


def own_client(realm: Realm) -> Issued:
    """Return Berth's own present client certificate, which is renewed before it ends."""
    return client_of(current_authority(realm))


def client_of(authority: Authority) -> Issued:
    """Return Berth's client certificate that this authority signed."""
    key = decrypt(KEYS, authority.client_key)
    return Issued(authority.certificate, authority.client_certificate, key, authority.client_ends_at)


def client_values(authority_id: int) -> dict[str, str | int]:
    """Return the part of `Agent.connection` that is Berth's client certificate, its key encrypted."""
    row = Authority.objects.get(pk=authority_id)
    return {"authority": row.pk, "certificate": row.client_certificate, "key": row.client_key}


def living_authorities(realm: Realm) -> list[Authority]:
    """Return the authorities of the realm that have not ended, the present one first."""
    return list(Authority.objects.filter(realm=realm.value, ends_at__gt=clock.now()))


def trusted_authorities(realm: Realm) -> str:
    """Return the PEM of all authorities whose clients a machine must accept, the present one first."""
    current_authority(realm)
    return "".join(each.certificate for each in living_authorities(realm))


@transaction.atomic
def current_authority(realm: Realm) -> Authority:
    """Return the newest authority of the realm; make one if there is none, or if its end is near."""
    latest = Authority.objects.filter(realm=realm.value).first()
    if latest and not _is_ending(latest):
        return latest
    lock_exclusive(f"agents.connections.authority.{realm}", wait_s=LOCK_WAIT_S)
    latest = Authority.objects.filter(realm=realm.value).first()
    if latest and not _is_ending(latest):
        return latest
    now = clock.now()
    made = make_authority(f"Berth {settings.BERTH_INSTALLATION} {realm}", now, AUTHORITY_LIFETIME)
    client = sign_client(made, "berth", now, CLIENT_LIFETIME)
    return Authority.objects.create(
        realm=realm.value,
        certificate=made.certificate,
        key=encrypt(KEYS, made.key),
        ends_at=made.ends_at,
        client_certificate=client.certificate,
        client_key=encrypt(KEYS, client.key),
        client_ends_at=client.ends_at,
    )


@transaction.atomic
def renew_clients() -> list[Authority]:
    """Replace Berth's client certificates that end within 30 days; return their authorities."""
    now = clock.now()
    due = Authority.objects.filter(ends_at__gt=now, client_ends_at__lt=now + RENEWED_BEFORE)
    renewed = []
    for authority in due.order_by("pk").select_for_update():
        client = sign_client(_signer(authority), "berth", now, CLIENT_LIFETIME)
        if client.ends_at <= authority.client_ends_at:
            continue  # the authority itself ends; its successor has a client of its own
        authority.client_certificate = client.certificate
        authority.client_key = encrypt(KEYS, client.key)
        authority.client_ends_at = client.ends_at
        authority.save(update_fields=["client_certificate", "client_key", "client_ends_at"])
        renewed.append(authority)
    return renewed


def _is_ending(authority: Authority) -> bool:
    return authority.ends_at - clock.now() < SUCCESSOR_BEFORE


def _signer(authority: Authority) -> Issued:
    key = decrypt(KEYS, authority.key)
    return Issued(authority.certificate, authority.certificate, key, authority.ends_at)
