"""Middleware that records refused requests in the audit log, whoever refused them."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from uuid import UUID

import structlog
from django.http import HttpRequest, HttpResponse

from common.actors import ANONYMOUS, Actor
from common.audit import audit_log
from common.db.connection import CONNECTION_ERRORS
from common.errors import BerthError
from common.ports import address_parameters
from common.rest.actor import actor_of

log = structlog.get_logger(__name__)

ACTION = "requests.refuse"
TOKEN_ACTION = "requests.refuse_token"
REFUSED = frozenset((403, 404, 409, 422, 429))
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


class RefusalsMiddleware:
    """Records refusals after all transactions of the request; does not change the response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code >= 400:
            try:
                _record(request, response.status_code)
            except CONNECTION_ERRORS as lost:
                log.warning("audit.lost", status=response.status_code, error=str(lost))
            except Exception:
                log.exception("audit.failed", status=response.status_code)
        return response


def _record(request: HttpRequest, status: int) -> None:
    error: BerthError | None = getattr(request, "refusal", None)
    code = error.code if error is not None else f"http_{status}"
    if code == "database_lost" or (error is not None and error.is_recorded):
        return
    if status == 401:
        _record_token(request)
        return
    is_failure = status >= 500 and request.method not in SAFE
    match = request.resolver_match
    if match is None or not (status in REFUSED or is_failure):
        return  # an address without a route reveals nothing
    captured, models = dict(match.captured_kwargs), address_parameters.get()  # type: ignore[attr-defined]
    target = next(((models[key], str(value)) for key, value in captured.items() if key in models), ("", ""))
    audit_log.record_refusal(
        actor=actor_of(request) if hasattr(request, "user") else ANONYMOUS,
        action=ACTION,
        reason=code,
        target=target,
        outcome=audit_log.Outcome.FAILED if is_failure else audit_log.Outcome.REFUSED,
        changes={
            "asked": f"{request.method} {_address(request.path, captured)}",
            "answer": error.message if error is not None else "",
            "status": status,
        },
        # Probing of ids (404) gives one line per route; a refusal on a visible object, one per object.
        # Requests without a login or form token could use any number of addresses: all share one line.
        kind=(
            request.method,
            match.view_name or match.route,
            *(target if _is_counted_by_object(request, status, code) else ()),
        ),
    )


def record_refused_request(
    *,
    actor: Actor,
    request_line: str,
    refusal: BerthError,
    target: tuple[str, str] = ("", ""),
    target_label: str = "",
) -> None:
    """Record a refusal outside the middleware: on a websocket, or of one object of a bulk action.
    An absent or hidden object (404) gets one line per address, as in the middleware.
    """
    is_by_object = refusal.http_status != HTTPStatus.NOT_FOUND
    audit_log.record_refusal(
        actor=actor,
        action=ACTION,
        reason=refusal.code,
        target=target,
        target_label=target_label,
        changes={"asked": request_line, "answer": refusal.message, "status": refusal.http_status},
        kind=(request_line, *((*target, target_label) if is_by_object else ())),
    )


def _is_counted_by_object(request: HttpRequest, status: int, code: str) -> bool:
    is_somebody = hasattr(request, "user") and request.user.is_authenticated
    return is_somebody and status != HTTPStatus.NOT_FOUND and code != "no_form_token"


def _record_token(request: HttpRequest) -> None:
    """Record a bearer token that was not accepted; a request without one is no attempt."""
    scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        access_key = token.strip().partition(".")[0][:32]
        audit_log.record_refusal(
            actor=actor_of(request),
            action=TOKEN_ACTION,
            reason="not_authenticated",
            target_label=access_key if access_key.isascii() and access_key.isprintable() else "",
        )


def _address(path: str, captured: Mapping[str, Any]) -> str:
    """Return the path with values that are not ids, and may be secrets,
    replaced by parameter names: `/sign-in/once/<code>/`.
    """
    for key, value in captured.items():
        if value and not isinstance(value, (int, UUID)):
            path = path.replace(str(value), f"<{key}>")
    return path
