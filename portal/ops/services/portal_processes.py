"""Starts the processes of a portal: databases, migrations, first data, web, workers, beat."""

import asyncio
import http.client
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping

from portal.ops.console import speaker
from portal.ops.paths import Layout
from portal.ops.services.postgres import EmbeddedPostgres
from portal.ops.services.redis import EmbeddedRedis
from portal.ops.services.sockets import listen
from portal.ops.services.supervisor import Service, Supervisor, run_once
from portal.ops.setup.env_file import ANY_ADDRESS, parse_server_address
from portal.ops.setup.role import Role
from portal.ops.setup.service_account import prepare_server_directories
from portal.worker_sizes import WORKERS

WORKER_OPTIONS = (
    "--app portal --quiet worker --pool threads --loglevel WARNING "
    "--without-gossip --without-mingle --without-heartbeat"
)
# Workers of root's portal run as root, for the engine's socket and the folders; silences
# Celery's warning about it.
QUIET = {"PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges"}

say = speaker("up")


class Portal:
    """One run of the portal under one supervisor."""

    def __init__(
        self,
        layout: Layout,
        environment: Mapping[str, str],
        *,
        host: str,
        port: int,
        image: str,
        role: Role = Role.ALL,
    ) -> None:
        self._layout = layout
        self._environment = {**environment, **QUIET}
        self._host = host
        self._port = port
        self._image = image
        self._role = role
        self._supervisor = Supervisor()
        # Held here rather than by the web process: clients wait during its restart instead of
        # being refused.
        self._listener: socket.socket | None = None

    async def run(
        self, *, has_demo: bool, began_at: float, before_web: Callable[[], None] = lambda: None
    ) -> int:
        """Start all processes (`before_web` when the port is needed), then run until SIGINT,
        SIGTERM or SIGHUP; a second signal exits immediately.
        """
        is_over = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, end_or_abort, is_over)
        starting = asyncio.create_task(self._start(has_demo, before_web))
        waiting = asyncio.create_task(is_over.wait())
        try:
            await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                self._greet(starting.result(), time.monotonic() - began_at)
                await waiting
            return 0
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            say("stopping; sessions and the engine keep running")
            if self._listener:
                self._listener.close()
            await self._supervisor.stop_concurrently(self._role.services)
            await self._supervisor.stop()

    async def _start(self, has_demo: bool, before_web: Callable[[], None]) -> str:
        """Start all processes; return a one-time sign-in link of the superadmin, or "" if the portal
        joins others.
        """
        for server in self._embedded_servers():
            await asyncio.to_thread(server.prepare)
            if isinstance(server, EmbeddedPostgres):
                self._environment["DATABASE_URL"] = server.socket_url(self._environment["DATABASE_URL"])
            await self._supervisor.start(server.service())
        if self._role.joins:
            await self._manage("await_installation")
        else:
            await self._manage("migrate", "--noinput", "--verbosity", "0")
            await self._manage(*self._first_run(has_demo))
        await asyncio.to_thread(before_web)
        if self._role.has_web:
            self._listener = listen(self._host, self._port)
        for service in self.front():
            await self._supervisor.start(service)
        if self._role.joins:
            return ""
        link = await self._manage("sign_in_link", is_quiet=True)
        return link.strip().splitlines()[-1]

    def _embedded_servers(self) -> list[EmbeddedPostgres | EmbeddedRedis]:
        """Return the servers that are not replaced by DATABASE_URL or REDIS_URL."""
        servers: list[EmbeddedPostgres | EmbeddedRedis] = []
        if self._role.joins:
            return servers
        needed = [name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)]
        if needed:
            directories = prepare_server_directories(self._layout, self._environment["BERTH_INSTALLATION"])
        for name in needed:
            address = parse_server_address(self._environment[name])
            kind = EmbeddedPostgres if name == "DATABASE_URL" else EmbeddedRedis
            servers.append(kind(directories, address, self._environment))
        return servers

    def front(self) -> tuple[Service, ...]:
        """Return the services of the portal itself for its role, in start order."""
        # Without a proxy in front, clients could forge X-Forwarded-*.
        is_behind_proxy = self._environment.get("BERTH_BEHIND_TLS_PROXY", "").lower() in (
            "1",
            "true",
            "yes",
            "on",
        )
        web = ["-m", "portal.processes.web_server", "--host", self._host, "--port", str(self._port)]
        if self._listener:
            web += ["--fd", str(self._listener.fileno())]
        if is_behind_proxy:
            web.append("--proxy-headers")
        programs: dict[str, tuple[str, ...]] = {
            "web": ("python", *web),
            "beat": ("python", "-m", "portal.processes.periodic"),
        }
        for name, size in WORKERS.items():
            own = ("-n", f"{name}@berth", "-c", str(size.threads), "-Q", size.queues)
            programs[name] = ("celery", *WORKER_OPTIONS.split(), *own)
        return tuple(self._service(name, *programs[name]) for name in self._role.services)

    def _service(self, name: str, program: str, *arguments: str) -> Service:
        pool = {"BERTH_DB_POOL": str(WORKERS[name].connections)} if name in WORKERS else {}
        return Service(
            name=name,
            argv=(str(self._layout.venv / "bin" / program), *arguments),
            environment={**self._environment, **pool},
            directory=self._layout.checkout,
            is_ready=self._web_answers if name == "web" else lambda: True,
            descriptors=(self._listener.fileno(),) if name == "web" and self._listener else (),
        )

    def _web_answers(self) -> bool:
        host = "127.0.0.1" if self._host in ANY_ADDRESS else self._host
        connection = http.client.HTTPConnection(host, self._port, timeout=5)
        try:
            connection.request("GET", "/api/v1/health/", headers={"Host": "localhost"})
            answer = connection.getresponse()
            # Another server may have taken the port since it was checked.
            is_ours = answer.headers.get("X-Berth-Installation") == self._environment["BERTH_INSTALLATION"]
            return is_ours and answer.status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    async def _manage(self, *arguments: str, is_quiet: bool = False) -> str:
        argv = (str(self._layout.python), "manage.py", *arguments)
        return await run_once(
            arguments[0],
            argv,
            environment={**self._environment, "BERTH_DB_SILENCE_S": "0"},  # migrations may be slow
            directory=self._layout.checkout,
            is_quiet=is_quiet,
        )

    def _first_run(self, has_demo: bool) -> list[str]:
        options = ["first_run", "--json", str(self._layout.first_run_file)]
        if self._image:
            options += ["--image", self._image]
        return options if has_demo else [*options, "--no-demo"]

    def _greet(self, link: str, took_s: float) -> None:
        if self._role.joins:
            say(
                f"Berth is up after {took_s:.0f} s with the role {self._role}, as a part of {self._environment['BERTH_URL']}"
            )
            return
        say(
            f"\nBerth is up after {took_s:.0f} s:  {self._environment['BERTH_URL']}\n"
            f"Sign in once with:  {link}\n"
            f"E-mail addresses and passwords: {self._layout.first_run_file}\n"
            f"Command line: pip install ./client, then berth login {self._environment['BERTH_URL']}\n"
            "Ctrl-C stops Berth; sessions keep running."
        )


def end_or_abort(is_over: asyncio.Event) -> None:
    if is_over.is_set():
        os._exit(130)  # the kernel then signals our children
    is_over.set()
