"""Browsers and networks in which somebody was signed in lately: what strangers try elsewhere does not count there."""

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
    """From where this request tries to come into `account`: an e-mail address, of nobody perhaps, or "" where a provider has yet
    to say whose; then known is what anybody was signed in from. One query."""
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
    """Somebody is signed in here now. A browser that is new to them is given a name by the answer, whatever name it came
    with: somebody else may have put that there. Two queries."""
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
    """This person is known nowhere any more, but in the browser of that request."""
    kept = _device_name(_device_of(but)) if but is not None else ""
    KnownPlace.objects.filter(user_id=user_id).exclude(name=kept).delete()


def keep_device(request: HttpRequest, response: HttpResponse) -> None:
    """Have the browser keep the name that it was given in this request, if it was."""
    device = getattr(request, "device_to_keep", "")
    if device:
        response.set_cookie(
            COOKIE, device, max_age=REMEMBERED, secure=settings.IS_HTTPS, httponly=True, samesite="Lax"
        )


def purge_known_places() -> None:
    """Forget those that were not used for long."""
    KnownPlace.objects.filter(seen_at__lt=clock.now() - REMEMBERED).delete()


def _device_of(request: HttpRequest) -> str:
    given = request.COOKIES.get(COOKIE, "")
    return given if len(given) <= LONGEST_COOKIE else ""


def _device_name(device: str) -> str:
    return f"device:{hash_secret(device)[:40]}" if device else ""


def _network_name(network: str) -> str:
    return f"network:{network}" if network != UNKNOWN else ""
