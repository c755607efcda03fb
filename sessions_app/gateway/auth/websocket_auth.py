"""Check access of websockets to sessions, and record it in the audit log, because no middleware
sees websocket requests.
"""

from dataclasses import replace
from urllib.parse import parse_qs
from uuid import UUID

from accounts.logins.impersonation import impersonated_actor, impersonated_user
from accounts.models import KeyPair, User
from accounts.tenancy.user_import import user_actor
from common.actors import Actor, ActorKind, Via
from common.audit import audit_log
from common.audit.denied_requests import record_refused_request
from common.errors import BerthError
from sessions_app.gateway.auth.origin_rules import header
from sessions_app.models import ComputeSession, Kernel
from sessions_app.selectors import Action, access_session, running_kernel
from transport.server.asgi import Scope

OPEN_TERMINAL = "sessions.open_terminal"
RUN_PROCESS = "sessions.run_process"


def enter_session(
    scope: Scope, user: User, *, action: str, keypair: KeyPair | None = None
) -> tuple[ComputeSession, Kernel]:
    """Return the session in the URL and its running kernel, and write an audit entry. Raises
    NotFound, PermissionDenied, Conflict; refusals are recorded.
    """
    session_id: UUID = scope["url_route"]["kwargs"]["session_id"]
    actor = websocket_actor(scope, user, keypair)
    try:
        session = access_session(actor, session_id, Action.OPEN_TERMINAL)
        kernel = running_kernel(session, requested_kernel(scope))
    except BerthError as refusal:
        _record_refusal(scope, actor, refusal)
        raise
    audit_log.record(actor=actor, action=action, target=session, changes={"container": kernel.name})
    return session, kernel


def require_no_impersonation(scope: Scope, user: User, login_key: str) -> None:
    """Raise PermissionDenied under impersonation: terminals are not open to impersonators."""
    person = impersonated_user(login_key)
    if person is None:
        return
    refusal = audit_log.impersonation_refusal()
    actor = impersonated_actor(websocket_actor(scope, user, None), person)
    _record_refusal(scope, actor, refusal)
    raise refusal


def _record_refusal(scope: Scope, actor: Actor, refusal: BerthError) -> None:
    target = (ComputeSession._meta.label_lower, str(scope["url_route"]["kwargs"]["session_id"]))
    record_refused_request(actor=actor, request_line=str(scope["path"]), refusal=refusal, target=target)


def websocket_actor(scope: Scope, user: User, keypair: KeyPair | None) -> Actor:
    """Return the actor with the address and user agent of the websocket."""
    return replace(
        user_actor(user),
        kind=ActorKind.TOKEN if keypair else ActorKind.USER,
        keypair_id=keypair.pk if keypair else None,
        ip=client_address(scope),
        via=Via.WEBSOCKET,
        user_agent=header(scope["headers"], b"user-agent").decode("latin-1"),
    )


def client_address(scope: Scope) -> str:
    """Return the client's IP address."""
    return str((scope.get("client") or [""])[0])


def requested_kernel(scope: Scope) -> str:
    """Return the kernel name in `?kernel=`; default main1."""
    query: str = scope["query_string"].decode("ascii", "replace")
    return parse_qs(query).get("kernel", ["main1"])[0]
