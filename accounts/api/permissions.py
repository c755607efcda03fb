"""REST permissions of tokens: request rate limit and scopes."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.credentials.keypairs import require_scopes
from accounts.credentials.rate_limit import Rate, check_rate, count_request
from accounts.models import KeyPair
from common.token_scopes import sufficient_scopes


class TokenPermission(BasePermission):
    """Default permission of all REST views. Logins of the portal's pages have no scopes and act as
    their user.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return true. Raises TooManyRequests, PermissionDenied."""
        if isinstance(request.auth, KeyPair):
            check_rate(_request_rate(request, request.auth, getattr(view, "rate_factor", 1)))
            require_scopes(request.auth, sufficient_scopes(view, request.method or ""))
        return True


class RateHeadersMiddleware:
    """Adds the remaining number of requests to each response to a token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        rate: Rate | None = getattr(request, "rate", None)
        for name, value in rate.headers().items() if rate is not None else ():
            response[name] = value
        return response


def _request_rate(request: Request, keypair: KeyPair, factor: int) -> Rate | None:
    """Count the request once, even if several permission checks run."""
    django_request = request._request
    if not hasattr(django_request, "rate"):
        django_request.rate = count_request(keypair, factor)  # type: ignore[attr-defined]
    return django_request.rate  # type: ignore[attr-defined,no-any-return]
