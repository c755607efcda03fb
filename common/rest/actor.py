"""Actor of a request."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest

from common.actors import ANONYMOUS, Actor, ActorKind, Via


def actor_of(request: Any) -> Actor:
    """Return the actor of a Django or DRF request; ANONYMOUS with an address if not signed in."""
    user = request.user
    django_request: HttpRequest = getattr(request, "_request", request)
    keypair = getattr(request, "auth", None)
    user_agent = django_request.headers.get("User-Agent", "")
    actor = replace(
        ANONYMOUS,
        ip=django_request.META.get("REMOTE_ADDR", ""),
        request_id=getattr(django_request, "request_id", ""),
        via=_interface(django_request, user_agent, is_program=keypair is not None),
        user_agent=user_agent,
    )
    if not user.is_authenticated:
        return actor
    return replace(
        actor,
        kind=ActorKind.TOKEN if keypair is not None else ActorKind.USER,
        user_id=user.pk,
        label=user.email,
        domain_id=user.domain_id,
        is_superadmin=user.is_superuser,
        is_monitor=user.is_monitor,
        is_domain_monitor=user.is_domain_monitor,
        keypair_id=keypair.pk if keypair is not None else None,
        **_impersonator_fields(django_request, is_program=keypair is not None),
    )


def _impersonator_fields(request: HttpRequest, *, is_program: bool) -> dict[str, Any]:
    """Return the real user of an impersonation (accounts.web.impersonation), as fields of Actor."""
    viewer = getattr(request, "viewer", None)
    return (
        {}
        if viewer is None or is_program
        else {"impersonator_id": viewer.pk, "impersonator_label": viewer.email}
    )


def _interface(request: HttpRequest, user_agent: str, *, is_program: bool) -> Via:
    """Return the interface of the request; REST requests with a page's cookie count as page."""
    if is_program or "Authorization" in request.headers:
        return Via.COMMAND if user_agent.startswith("berth/") else Via.REST
    return Via.PAGE
