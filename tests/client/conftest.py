"""Fixtures of the client: an empty home, no pauses, a portal on the loopback, and the command."""

import io
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from tests import factories
from tests.factories_sessions import Place
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody is signed in, and nothing of whoever runs the tests is seen."""
    for name in ("BERTH_URL", "BERTH_TOKEN", "BERTH_PROFILE", "BERTH_PROJECT", "BERTH_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    return home


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between tries are noted, not made."""
    pauses: list[float] = []
    for module in ("berth.transport", "berth.following", "berth.sessions", "berth.events"):
        monkeypatch.setattr(f"{module}.time.sleep", pauses.append)
    return pauses


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command("ls", "--json")` does what a shell would with `berth ls --json`, output into pipes."""
    from berth.cli.main import run

    def execute(*arguments: str, stdin: str | bytes = "") -> Done:
        capfd.readouterr()
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        return Done(code, *capfd.readouterr())

    return execute


@pytest.fixture(scope="session")
def portal_url(django_db_setup: None) -> Iterator[str]:
    """The web process of production, in a thread: engines in memory are shared with the test."""
    from portal.processes.web_server import server_config

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(has_proxy=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), deadline_s=30)
        assert server.started
        yield f"http://localhost:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def berth(place: Place, portal_url: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command`, signed in as the owner of the place."""
    monkeypatch.setenv("BERTH_URL", portal_url)
    monkeypatch.setenv("BERTH_TOKEN", factories.make_token(place.owner))
    return command
