"""The production server with the transport to one app, as a process whose memory can be measured.

python -m tests.ws.proxy_process APP_PORT      # prints the port that it listens on
"""

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tests.ws.servers import DEFAULT_RULES, PlainProxy
from transport.proxy import Transport
from transport.server import Limits, protocol_class


@contextmanager
def proxy_process(app_port: int) -> Iterator[tuple[int, int]]:
    """(port, process id)"""
    argv = [sys.executable, "-m", "tests.ws.proxy_process", str(app_port)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def rss_bytes(pid: int) -> int:
    """What a process holds of the machine's memory."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = PlainProxy(int(sys.argv[1]), Transport(), DEFAULT_RULES)
    config = uvicorn.Config(
        proxy,
        http=protocol_class(pre_app_handler=proxy, limits=Limits(linger_s=2)),
        loop="uvloop",
        lifespan="off",
        log_level="critical",
        server_header=False,
        proxy_headers=False,
    )
    gc.freeze()
    os.write(1, b"%d\n" % listener.getsockname()[1])
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
