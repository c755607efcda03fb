"""Trusted devices: browsers and networks in which a user signed in lately, exempt from throttling
by strangers' attempts.
"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from accounts.core.throttle import UNKNOWN, Whence, network_of
from accounts.core.token_secrets import hash_secret, new_secret
from accounts.models import KnownPlace, User
from common import clock

COOKIE = "berth_device"
LONGEST_COOKIE = 100
REMEMBERED = timedelta(days=90)


def whence_of(request: HttpRequest, account: str) -> Whence:
    """Return the origin of a sign-in attempt. `account` is an e-mail address, possibly without an
    account, or "" before a provider has identified the user; then devices and networks of all users
    count. One query.
    """
    device = _device_of(request)
    network = network_of(request.META.get("REMOTE_ADDR", ""))
    names = {_device_name(device), _network_name(network)} - {""}
    known = KnownPlace.objects.filter(name__in=names)
    if account:
        known = known.filter(user__email=account)
    found = set(known.filter(seen_at__gt=clock.now() - REMEMBERED).values_list("name", flat=True))
    is_known = _device_name(device) in found
    return Whence(network, _device_name(device) if is_known else "", _network_name(network) in found)


def remember_place(request: Any, user: User) -> None:
    """Trust this browser and network for `user`, who is signed in. A browser not yet trusted gets a
    new secret by the response, because a presented one may have been planted. Two queries.
    """
    whence = whence_of(request, user.email)
    device = whence.device
    if not device:
        request.device_to_keep = new_secret()
        device = _device_name(request.device_to_keep)
    names = {device, _network_name(whence.network)} - {""}
    KnownPlace.objects.bulk_create(
        [KnownPlace(user=user, name=name) for name in sorted(names)],
        update_conflicts=True,
        unique_fields=["user", "name"],
        update_fields=["seen_at"],
    )


def forget_places(user_id: int, *, but: HttpRequest | None = None) -> None:
    """Remove all trusted devices and networks of a user, except the browser of the request
    `but`.
    """
    kept = _device_name(_device_of(but)) if but is not None else ""
    KnownPlace.objects.filter(user_id=user_id).exclude(name=kept).delete()


def keep_device(request: HttpRequest, response: HttpResponse) -> None:
    """Set the device cookie if this request created one."""
    device = getattr(request, "device_to_keep", "")
    if device:
        response.set_cookie(
            COOKIE, device, max_age=REMEMBERED, secure=settings.IS_HTTPS, httponly=True, samesite="Lax"
        )


def purge_known_places() -> None:
    """Delete trusted devices and networks that were not used within REMEMBERED."""
    KnownPlace.objects.filter(seen_at__lt=clock.now() - REMEMBERED).delete()


def _device_of(request: HttpRequest) -> str:
    given = request.COOKIES.get(COOKIE, "")
    return given if len(given) <= LONGEST_COOKIE else ""


def _device_name(device: str) -> str:
    return f"device:{hash_secret(device)[:40]}" if device else ""


def _network_name(network: str) -> str:
    return f"network:{network}" if network != UNKNOWN else ""
