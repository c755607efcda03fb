"""Options and sockets of the web process, and the proxies that it trusts."""

import os
import resource
import socket
import sys
from collections.abc import Iterator

import pytest

from portal.processes import tuning, web_server


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(("more", "expected"), [([], False), (["--proxy-headers"], True)])
def test_proxies_are_believed_only_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, more: list[str], expected: bool
) -> None:
    monkeypatch.setattr(sys, "argv", ["web_server", "--host", "::1", "--port", "8080", *more])
    options = web_server.parse_options()
    assert (options.host, options.port, options.proxy_headers) == ("::1", 8080, expected)
    proxies = web_server.server_config(has_proxy=expected).http.proxies  # type: ignore[union-attr]
    assert (proxies is not None) == expected


@pytest.mark.parametrize("argv", [["--host", "a"], ["--port", "1"], ["--host", "a", "--port", "x"]])
def test_host_and_port_must_be_given(monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["web_server", *argv])
    with pytest.raises(SystemExit):
        web_server.parse_options()


def test_trusted_proxies_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    own = web_server.trusted_proxies()
    assert own.trusts("127.0.0.1")
    assert own.trusts("::1")
    assert not own.trusts("10.0.0.1")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.0/8, ")
    named = web_server.trusted_proxies()
    assert named.trusts("10.0.0.1")
    assert not named.trusts("127.0.0.1")
    assert not named.trusts("unix:")


def test_a_taken_port_is_an_error_for_the_portal_and_left_out_for_apps(taken: int) -> None:
    with pytest.raises(OSError, match="in use"):
        web_server.listen("127.0.0.1", taken)
    (free,) = web_server.listen_where_free("127.0.0.1", [taken, 0])
    with free:
        assert not free.getblocking()
        socket.create_connection(free.getsockname()).close()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, resource.RLIM_INFINITY), (tuning.DESCRIPTORS, resource.RLIM_INFINITY)),
        ((1024, 4096), (4096, 4096)),
        ((4096, 4096), None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_the_limit_of_descriptors_only_rises(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int] | None
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: before)
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: made.append(limits))
    tuning.raise_descriptor_limit()
    assert made == ([] if after is None else [after])


@pytest.mark.parametrize(("host", "has_ports"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_ports_of_apps_are_opened_beyond_the_loopback(
    monkeypatch: pytest.MonkeyPatch, host: str, has_ports: bool
) -> None:
    opened: list[int] = []
    served: list[socket.socket] = []

    class Server:
        def __init__(self, config: object) -> None:
            pass

        def run(self, sockets: list[socket.socket]) -> None:
            served.extend(sockets)

    monkeypatch.setattr(sys, "argv", ["web_server", "--host", host, "--port", "0"])
    monkeypatch.setattr(web_server.settings, "BERTH_APPS_PORTS", [0, 0])
    monkeypatch.setattr(web_server.uvicorn, "Server", Server)
    monkeypatch.setattr(web_server.app_ports, "set_listening_ports", opened.extend)
    monkeypatch.setattr(web_server, "raise_descriptor_limit", lambda: None)
    monkeypatch.setattr(web_server, "freeze_startup_objects", lambda: None)
    web_server.main()
    ports = [listener.getsockname()[1] for listener in served]
    for listener in served:
        listener.close()
    assert opened == ports[1:]
    assert len(opened) == (2 if has_ports else 0)


def test_a_socket_that_is_handed_over_is_the_portals(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[socket.socket] = []

    class Server:
        def __init__(self, config: object) -> None:
            pass

        def run(self, sockets: list[socket.socket]) -> None:
            served.extend(sockets)

    with web_server.listen("127.0.0.1", 0) as ours:
        handed = str(os.dup(ours.fileno()))
        monkeypatch.setattr(sys, "argv", ["web_server", "--host", "127.0.0.1", "--port", "1", "--fd", handed])
        monkeypatch.setattr(web_server.uvicorn, "Server", Server)
        monkeypatch.setattr(web_server, "raise_descriptor_limit", lambda: None)
        monkeypatch.setattr(web_server, "freeze_startup_objects", lambda: None)
        web_server.main()
        with served[0]:
            assert served[0].getsockname() == ours.getsockname()
