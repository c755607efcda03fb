"""Limits request bodies without sign-in: Django stores a whole body on disk before it
authenticates, so that strangers could fill the disk.
"""

import json

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie
from rest_framework.exceptions import AuthenticationFailed

from accounts.api.authentication import KeyPairAuthentication
from accounts.models import SessionStore
from common.errors import BerthError
from transport.proxy.headers import Headers
from transport.server.asgi import AsgiApp, Message, Receive, Scope, Send

SMALL_BODY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
REFUSAL = {
    "code": "too_large",
    "message": f"Only who is signed in may send more than {SMALL_BODY_BYTES // 2**20} MiB.",
    "hint": "Send “Authorization: Bearer <token>”, or sign in.",
    "fields": {},
}


class BodyTooLarge(Exception):
    """A request without sign-in exceeds SMALL_BODY_BYTES."""


class BodyGuard:
    """ASGI wrapper of Django: answers 413 to bodies above SMALL_BODY_BYTES without sign-in."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken_bytes, is_known = 0, False

        async def take() -> Message:
            nonlocal taken_bytes, is_known
            message = await receive()
            taken_bytes += len(message.get("body", b""))
            if taken_bytes > SMALL_BODY_BYTES and not is_known:
                ip = (scope.get("client") or ("", 0))[0]
                is_known = await database_sync_to_async(is_signed_in, thread_sensitive=False)(
                    scope["headers"], ip
                )
                if not is_known:
                    raise BodyTooLarge
            return message

        try:
            await self._app(scope, take, send)
        except BodyTooLarge:
            await _refuse(send)


def is_signed_in(headers: Headers, ip: str) -> bool:
    """Return True if the token or portal cookie in the headers, sent from `ip`, is a user's."""
    request = request_from(headers, ip)
    try:
        has_token = KeyPairAuthentication().authenticate(request) is not None  # type: ignore[arg-type]
    except AuthenticationFailed:
        return False
    except BerthError:
        return True  # a known user with a required action, which Django reports
    return has_token or get_user(request).is_authenticated


def request_from(headers: Headers, ip: str) -> HttpRequest:
    """Return a request with the credentials of these headers and `ip`, not yet authenticated."""
    given = {
        name: value.decode("latin-1") for name, value in headers if name in (b"authorization", b"cookie")
    }
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = ip
    request.META["HTTP_AUTHORIZATION"] = given.get(b"authorization", "")
    cookies = parse_cookie(given.get(b"cookie", ""))
    request.session = SessionStore(cookies.get(settings.SESSION_COOKIE_NAME))
    return request


async def _refuse(send: Send) -> None:
    body = json.dumps(REFUSAL).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
