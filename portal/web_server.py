"""The process that faces browsers: the portal's port and the ports of apps, one server for all of them.

python -m portal.web_server --host 0.0.0.0 --port 8080 [--proxy-headers]
"""

import argparse
import os
import socket
from collections.abc import Iterable

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import uvicorn
from django.conf import settings

from portal.asgi import application
from portal.ops.envfile import LOOPBACK
from sessions_app.gateway import doors

BACKLOG = 2048


def main() -> None:
    options = parse_options()
    sockets = [listen(options.host, options.port)]
    if options.host not in LOOPBACK:
        of_apps = listen_where_free(options.host, settings.BERTH_APPS_PORTS)
        doors.open_ports(listener.getsockname()[1] for listener in of_apps)
        sockets += of_apps
    uvicorn.Server(server_config(has_proxy=options.proxy_headers)).run(sockets=sockets)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="portal.web_server", description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--proxy-headers", action="store_true", help="believe X-Forwarded-* of FORWARDED_ALLOW_IPS"
    )
    return parser.parse_args()


def server_config(*, has_proxy: bool) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http="httptools",
        loop="uvloop",
        ws="websockets-sansio",
        ws_max_size=64 * 2**20,
        ws_per_message_deflate=False,
        proxy_headers=has_proxy,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=65,
        timeout_graceful_shutdown=3,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def listen_where_free(host: str, ports: Iterable[int]) -> list[socket.socket]:
    """Those of the ports that no other program has taken."""
    found = []
    for port in ports:
        try:
            found.append(listen(host, port))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main()
