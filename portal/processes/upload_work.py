"""Records uploads into a session as user activity while they arrive: Django calls the view only
once it has the whole body, possibly hours later.
"""

import time
from uuid import UUID

from channels.db import database_sync_to_async
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.urls import Resolver404, resolve
from rest_framework.exceptions import AuthenticationFailed

from accounts.api.authentication import KeyPairAuthentication
from accounts.credentials.keypairs import require_scopes
from accounts.logins.service import request_login
from common import clock
from common.errors import BerthError
from common.rest.actor import actor_of
from common.token_scopes import FOR_SESSIONS
from portal.processes.body_limit import request_from
from sessions_app.container_io.files import open_files
from sessions_app.models import Interaction, SessionIdle
from transport.proxy.headers import Headers
from transport.server.asgi import AsgiApp, Message, Receive, Scope, Send

NOTE_EVERY_S = 30
UPLOADS = frozenset(("api-session-content", "api-session-archive"))


class UploadWork:
    """ASGI wrapper of Django: records session activity every NOTE_EVERY_S while data arrives."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session_id = session_of_upload(scope["method"], scope["path"])
        if session_id is None:
            await self._app(scope, receive, send)
            return
        noted_at = time.monotonic()

        async def take() -> Message:
            nonlocal noted_at
            message = await receive()
            if message.get("body") and time.monotonic() - noted_at >= NOTE_EVERY_S:
                noted_at = time.monotonic()
                ip = (scope.get("client") or ("", 0))[0]
                await database_sync_to_async(note_upload, thread_sensitive=False)(
                    session_id, scope["headers"], ip
                )
            return message

        await self._app(scope, take, send)


def session_of_upload(method: str, path: str) -> UUID | None:
    """Return the session id of a request that writes files of a session, else None."""
    if method != "PUT":
        return None
    try:
        match = resolve(path)
    except Resolver404:
        return None
    return match.kwargs["session_id"] if match.url_name in UPLOADS else None


def note_upload(session_id: UUID, headers: Headers, ip: str) -> None:
    """Record activity if the sender of these headers from `ip` may write files of the running
    session. Others are ignored: the view refuses them once the body is complete.
    """
    request = request_from(headers, ip)
    try:
        by_token = KeyPairAuthentication().authenticate(request)  # type: ignore[arg-type]
        if by_token is not None:
            request.user, request.auth = by_token  # type: ignore[attr-defined]
            require_scopes(by_token[1], FOR_SESSIONS)
        else:
            request.user = get_user(request)
            if not request.user.is_authenticated:
                return
        open_files(actor=actor_of(request), login=request_login(request), session_id=session_id)
        SessionIdle.objects.record_activity(session_id, Interaction.COMMAND, clock.now())
    except (AuthenticationFailed, BerthError, DatabaseError):
        return
