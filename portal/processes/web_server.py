"""Web server process: serves the portal's port and the ports of apps.

python -m portal.processes.web_server --host 0.0.0.0 --port 8080 [--proxy-headers]
"""

import argparse
import os
import socket
from collections.abc import Iterable

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import uvicorn
from django.conf import settings

from portal.ops.services.sockets import listen
from portal.ops.setup.env_file import LOOPBACK
from portal.processes.asgi import app_proxy, application
from portal.processes.tuning import freeze_startup_objects, raise_descriptor_limit
from sessions_app.gateway.proxy import app_ports
from transport.server import TrustedProxies, protocol_class

# For the portal's own websockets; those of apps have a limit of their own.
MAX_MESSAGE_BYTES = 8 * 2**20


def main() -> None:
    options = parse_options()
    raise_descriptor_limit()
    sockets = [listen(options.host, options.port) if options.fd is None else socket.socket(fileno=options.fd)]
    if options.host not in LOOPBACK:
        of_apps = listen_where_free(options.host, settings.BERTH_APPS_PORTS)
        app_ports.set_listening_ports(listener.getsockname()[1] for listener in of_apps)
        sockets += of_apps
    freeze_startup_objects()
    uvicorn.Server(server_config(has_proxy=options.proxy_headers)).run(sockets=sockets)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="portal.processes.web_server", description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fd", type=int, help="a socket that listens there already, of whoever starts us")
    parser.add_argument(
        "--proxy-headers", action="store_true", help="believe X-Forwarded-* of FORWARDED_ALLOW_IPS"
    )
    return parser.parse_args()


def server_config(*, has_proxy: bool) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=protocol_class(pre_app_handler=app_proxy, proxies=trusted_proxies() if has_proxy else None),
        loop="uvloop",
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        proxy_headers=False,  # handled by our protocol class
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=3,
    )


def trusted_proxies() -> TrustedProxies:
    """Return the proxies in FORWARDED_ALLOW_IPS: addresses, networks, or * for any."""
    return TrustedProxies(os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1").split(","))


def listen_where_free(host: str, ports: Iterable[int]) -> list[socket.socket]:
    """Return listening sockets for those ports that are free."""
    found = []
    for port in ports:
        try:
            found.append(listen(host, port))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main()
