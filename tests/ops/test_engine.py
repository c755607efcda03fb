"""The machine's engine is found; if it cannot be used, one line gives the reason and the command to type."""

import json
import os
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from portal.ops.engine import install
from portal.ops.engine.install import ensure_engine
from portal.ops.engine.objects import connect
from portal.ops.errors import PreflightFailed

NOBODY = 65534


class EngineWithoutLimits(BaseHTTPRequestHandler):
    """An engine on a machine whose kernel was started without the memory controller."""

    answers: ClassVar[dict[str, Any]] = {
        "/version": {"ApiVersion": "1.41"},
        "/v1.41/info": {"MemoryLimit": False, "PidsLimit": True},
    }

    def do_GET(self) -> None:
        is_known = self.path in self.answers
        body = json.dumps(self.answers.get(self.path, {"message": "no such thing"})).encode()
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "local"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine_socket(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "engine.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), EngineWithoutLimits) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield path
        server.shutdown()
        thread.join()


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an engine and without the programs of one; its PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(install, "SYSTEM_SOCKET", f"unix://{tmp_path}/none.sock")
    return programs


@pytest.fixture
def as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root's rights, whoever runs the tests."""
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)


def program(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)


def refusal() -> PreflightFailed:
    with pytest.raises(PreflightFailed) as caught:
        ensure_engine(lambda line: None)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_dead_docker_host_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/gone.sock")

    assert str(tmp_path) in refusal().message
    assert "DOCKER_HOST" in refusal().fix


def test_an_engine_that_cannot_limit_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, engine_socket: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine_socket}")

    assert "cgroups" in refusal().message
    assert "memory" in refusal().message


def test_a_docker_command_alone_is_no_engine(no_engine: Path, as_nobody: None) -> None:
    program(no_engine, "docker")
    program(no_engine, "apt-get")

    assert "only root may install one" in refusal().message
    assert "apt-get install -y docker.io" in refusal().fix


def test_an_installed_engine_that_only_root_may_start_is_not_installed_again(
    no_engine: Path, as_nobody: None
) -> None:
    program(no_engine, "dockerd")

    assert "only root may start the one that is installed" in refusal().message
    assert "apt-get" not in refusal().fix


def test_a_machine_that_is_neither_debian_nor_ubuntu_is_told_where_to_look(
    no_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "docs.docker.com" in refusal().fix  # no apt-get on the PATH


def test_a_forbidden_socket_names_the_group(
    no_engine: Path, engine_socket: Path, monkeypatch: pytest.MonkeyPatch, as_nobody: None
) -> None:
    monkeypatch.setattr(install, "SYSTEM_SOCKET", f"unix://{engine_socket}")
    monkeypatch.setattr(os, "access", lambda *_: False)

    assert "may not use it" in refusal().message
    assert "usermod -aG docker" in refusal().fix


@pytest.mark.docker
def test_the_engine_of_this_machine_is_found_without_a_word() -> None:
    lines: list[str] = []

    address = ensure_engine(lines.append)

    assert lines == []
    assert "Version" in connect(address).version()
