"""Middlewares: request id, trailing slash, connection release, NUL check, error pages."""

import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import is_valid_path
from django.utils.translation import gettext as _

from common import clock
from common.db.connection import connection_error, connection_refusal
from common.db.streaming import release_connection
from common.errors import BerthError, InvalidInput
from common.pages.error_pages import error_page, not_allowed
from common.values.text import nul_sentence, shown

log = structlog.get_logger(__name__)
GetResponse = Callable[[HttpRequest], HttpResponse]


class Middleware:
    """Base of middlewares: keeps the next one as `get_response`."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response


class RequestIdMiddleware(Middleware):
    """Assigns a request id, for log lines and the header X-Request-Id. Sets `began_at`."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.request_id = uuid.uuid4().hex[:12]  # type: ignore[attr-defined]
        request.began_at = clock.now()  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request.request_id)  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-Id"] = request.request_id  # type: ignore[attr-defined]
        return response


class LastSlashMiddleware(Middleware):
    """Adds a missing trailing slash to the path: after a redirect, clients would send GET without
    the body, and nothing would be created. Only reads of pages are redirected, by Django.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = request.path_info
        is_page_read = request.method in ("GET", "HEAD") and not path.startswith(("/api/", "/dav"))
        if not (path.endswith("/") or is_page_read or is_valid_path(path)) and is_valid_path(f"{path}/"):
            request.path_info, request.path = f"{path}/", f"{request.path}/"
        return self.get_response(request)


class StreamWithoutDatabaseMiddleware(Middleware):
    """Closes the database connection before a response is streamed, or takes a body: Django keeps it
    until the response ends, which clients may put off for ever, while connections are few.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.streaming or getattr(response, "takes_body", False):
            release_connection()
        return response


class NulMiddleware(Middleware):
    """Refuses NUL in the path, the query string or a form (JSON: common.rest.parsers), which the
    database would refuse later, halfway through an operation.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path:
            return error_page(request, InvalidInput(_("The address has a NUL character (U+0000).")))
        if "%00" in request.META.get("QUERY_STRING", "") and (where := _with_nul(request.GET)):
            return _nul_at(request, where)
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: object, arguments: object, named: object
    ) -> HttpResponse | None:
        is_form = request.method == "POST" and not request.path.startswith("/api/v1/")
        where = _with_nul(request.POST) if is_form else None
        return _nul_at(request, where) if where else None


def _with_nul(fields: QueryDict) -> str | None:
    """Return the first field with a NUL in its name or values."""
    found = (name for name, values in fields.lists() if any("\0" in str(text) for text in (name, *values)))
    return next(found, None)


def _nul_at(request: HttpRequest, where: str) -> HttpResponse:
    name, sentence = shown(where), nul_sentence()
    return error_page(request, InvalidInput(f"{name}: {sentence}", fields={name: [sentence]}))


class ErrorPageMiddleware(Middleware):
    """Renders a BerthError of a page (REST has its own renderer) and the refusal of a method."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = not request.path.startswith("/api/v1/")
        if response.status_code == 405 and is_page and not response.streaming and not response.content:
            return not_allowed(request, response.headers.get("Allow") or _("other methods"))
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, BerthError):
            return error_page(request, exception)
        if lost := connection_error(exception):
            refusal = connection_refusal(lost)
            log.warning("database.refused", path=request.path, code=refusal.code, error=str(lost))
            return error_page(request, refusal)
        return None
