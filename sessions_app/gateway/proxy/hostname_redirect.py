"""Redirect browsers from 127.0.0.1 to localhost, under which app hosts resolve."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port

from sessions_app.gateway.proxy.app_ports import resolves_app_hosts

GetResponse = Callable[[HttpRequest], HttpResponse]
_THIS_COMPUTER = frozenset(("127.0.0.1", "[::1]"))


class ByNameMiddleware:
    """Middleware for the portal's own computer: 127.0.0.1 equals localhost, but browsers resolve
    app hosts only below the latter. Only page loads are redirected, not programs.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_page = request.method == "GET" and request.headers.get("Sec-Fetch-Dest") == "document"
        name, port = split_domain_port(request.get_host())
        if is_page and name in _THIS_COMPUTER and resolves_app_hosts("localhost") and not request.is_secure():
            place = f"localhost:{port}" if port else "localhost"
            return HttpResponseRedirect(f"http://{place}{request.get_full_path()}")
        return self.get_response(request)
