"""Trusted devices: browsers and networks in which a user signed in lately, exempt from throttling
by strangers' attempts.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from accounts.core.throttle import UNKNOWN_NETWORK, AttemptOrigin, address_network
from accounts.core.token_secrets import hash_secret, new_secret
from accounts.models import KnownPlace, User
from common import clock

COOKIE = "berth_device"
LONGEST_COOKIE = 100
TRUST_DURATION = timedelta(days=90)


def attempt_origin(request: HttpRequest, account: str) -> AttemptOrigin:
    """Return the origin of a sign-in attempt. `account` is an e-mail address, possibly without an
    account, or "" before a provider has identified the user; then devices and networks of all users
    count. One query.
    """
    device = _device_cookie(request)
    network = address_network(request.META.get("REMOTE_ADDR", ""))
    names = {_device_name(device), _network_name(network)} - {""}
    known = KnownPlace.objects.filter(name__in=names)
    if account:
        known = known.filter(user__email=account)
    found = set(known.filter(seen_at__gt=clock.now() - TRUST_DURATION).values_list("name", flat=True))
    is_known = _device_name(device) in found
    return AttemptOrigin(network, _device_name(device) if is_known else "", _network_name(network) in found)


def trust_device(request: Any, user: User) -> None:
    """Trust this browser and network for `user`, who is signed in. A browser not yet trusted gets a
    new secret by the response, because a presented one may have been planted. Two queries.
    """
    origin = attempt_origin(request, user.email)
    device = origin.device
    if not device:
        request.device_to_keep = new_secret()
        device = _device_name(request.device_to_keep)
    names = {device, _network_name(origin.network)} - {""}
    KnownPlace.objects.bulk_create(
        [KnownPlace(user=user, name=name) for name in sorted(names)],
        update_conflicts=True,
        unique_fields=["user", "name"],
        update_fields=["seen_at"],
    )


def forget_devices(user_id: int, *, except_request: HttpRequest | None = None) -> None:
    """Remove a user's trusted devices and networks, except the browser of `except_request`."""
    current = _device_name(_device_cookie(except_request)) if except_request is not None else ""
    KnownPlace.objects.filter(user_id=user_id).exclude(name=current).delete()


def set_device_cookie(request: HttpRequest, response: HttpResponse) -> None:
    """Set the device cookie if this request created one."""
    device = getattr(request, "device_to_keep", "")
    if device:
        response.set_cookie(
            COOKIE, device, max_age=TRUST_DURATION, secure=settings.IS_HTTPS, httponly=True, samesite="Lax"
        )


def purge_devices() -> None:
    """Delete trusted devices and networks that were not used within REMEMBERED."""
    KnownPlace.objects.filter(seen_at__lt=clock.now() - TRUST_DURATION).delete()


def _device_cookie(request: HttpRequest) -> str:
    given = request.COOKIES.get(COOKIE, "")
    return given if len(given) <= LONGEST_COOKIE else ""


def _device_name(device: str) -> str:
    return f"device:{hash_secret(device)[:40]}" if device else ""


def _network_name(network: str) -> str:
    return f"network:{network}" if network != UNKNOWN_NETWORK else ""
