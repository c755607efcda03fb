"""REST authentication: `Authorization: Bearer <token>` for programs, the session cookie for the
portal's pages.
"""

from base64 import b64decode

from django.conf import settings
from django.utils.translation import gettext as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from accounts.core.throttle import Purpose
from accounts.logins.required_actions import find_required_action, required_action_error
from accounts.logins.service import authenticate_token, record_use
from accounts.models import KeyPair, User
from accounts.sign_in.throttle import count_attempt
from common.pages.returned_forms import stale_form


class KeyPairAuthentication(BaseAuthentication):
    """Bearer tokens of keypairs. One query, and at most one write a minute for the last use."""

    def authenticate(self, request: Request) -> tuple[User, KeyPair] | None:
        token = self._token(request)
        if token is None:
            return None
        keypair = authenticate_token(token)
        if keypair is None:
            self._refuse(request, token)
            raise AuthenticationFailed(_("This token is unknown, revoked or expired."))
        ip = request.META.get("REMOTE_ADDR", "")
        if action := find_required_action(keypair.user, ip=ip, is_program=True):
            raise required_action_error(action, ip)
        record_use(keypair, ip)
        return keypair.user, keypair

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="berth"'

    def _token(self, request: Request) -> str | None:
        """Return the token of the request, or None if it has none of this scheme."""
        scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None

    def _refuse(self, request: Request, token: str) -> None:
        """Hook of subclasses, called for a token that is not valid."""


class BasicTokenAuthentication(KeyPairAuthentication):
    """Tokens of programs that know user names and passwords alone (HTTP Basic): the token is the
    password, the user name does not matter. Bearer tokens as well.

    A drive that is connected with a revoked token asks for ever, so failures are limited by address.
    """

    def authenticate_header(self, request: Request) -> str:
        return 'Basic realm="Berth", charset="UTF-8"'

    def _token(self, request: Request) -> str | None:
        scheme, _space, encoded = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return super()._token(request)
        try:
            credentials = b64decode(encoded.strip(), validate=True).decode()
        except ValueError:
            return ""
        return credentials.partition(":")[2].strip()

    def _refuse(self, request: Request, token: str) -> None:
        count_attempt(request._request, Purpose.TOKEN, "")


class BrowserAuthentication(SessionAuthentication):
    """Session cookie of the portal's own pages; unsafe methods need the CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            raise stale_form(request._request, str(error.detail)) from error


class KeyPairScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = KeyPairAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class BrowserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BrowserAuthentication
    name = "browser"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}
