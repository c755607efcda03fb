"""Choose the language of gateway responses, which no Django middleware handles."""

from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation

from common.http.cookies import pairs
from sessions_app.gateway.auth.origin_rules import header
from transport.proxy import Headers


def client_language(headers: Headers) -> translation.override:
    """Return a context manager that activates the client's language: from the portal's language
    cookie (sent to ports of its host too), else from Accept-Language, else English.
    """
    wanted = settings.LANGUAGE_COOKIE_NAME.encode()
    cookies = (pair for name, value in headers if name == b"cookie" for pair in pairs(value))
    chosen = next((value for name, value in cookies if name == wanted), b"")
    return translation.override(
        _best(chosen.decode("latin-1"), header(headers, b"accept-language").decode("latin-1"))
    )


@lru_cache(maxsize=256)
def _best(chosen: str, accepted: str) -> str:
    request = HttpRequest()
    request.COOKIES = {settings.LANGUAGE_COOKIE_NAME: chosen}
    request.META = {"HTTP_ACCEPT_LANGUAGE": accepted}
    return translation.get_language_from_request(request)
