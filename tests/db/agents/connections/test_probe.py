"""Refusals of wrong certificates, ports and engines, in sentences that say what to do."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agents.connections.certificates import Issued, make_authority, sign_client, sign_server
from agents.connections.pasted import PastedCertificates, check_certificates
from agents.connections.probe import check_engine
from agents.runtime.endpoints import Endpoint, endpoint_of, write_tls_files
from agents.runtime.port import PlainText
from common.errors import InvalidInput, Unavailable

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
OURS = make_authority("ours", NOW - 5 * DAY, 10 * DAY)
FOREIGN = make_authority("foreign", NOW - 5 * DAY, 10 * DAY)
HOST = "127.0.0.1"
SERVER = sign_server(OURS, [HOST], NOW, DAY)
CLIENT = sign_client(OURS, "berth", NOW, DAY)
OLD_SERVER = sign_server(OURS, [HOST], NOW - 3 * DAY, DAY)
OLD_CLIENT = sign_client(OURS, "berth", NOW - 3 * DAY, DAY)
DOCKER = {"ApiVersion": "1.41", "Version": "20.10.24", "Arch": "amd64", "Components": [{"Name": "Engine"}]}


@contextmanager
def engine(server: Issued | None, home: Path, answer: dict[str, Any] | bytes = DOCKER) -> Iterator[str]:
    """Yield the address of a server that answers /version so, over TLS unless `server` is None."""
    context = None
    if server is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=OURS.certificate)
        (home / "server.pem").write_text(server.certificate + server.key)
        context.load_cert_chain(home / "server.pem")
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def serve(listener: socket.socket) -> None:
        plain, _address = listener.accept()
        with closing(plain):
            try:
                guest = context.wrap_socket(plain, server_side=True) if context else plain
                guest.recv(2**12)
                guest.sendall(body if body[:4] == b"SSH-" else b"HTTP/1.0 200 OK\r\n\r\n" + body)
                guest.close()
            except OSError:
                return

    with socket.create_server((HOST, 0)) as listener:
        thread = Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"tcp://{HOST}:{listener.getsockname()[1]}"
        thread.join(5)


def endpoint(address: str, client: Issued = CLIENT, ca: str = OURS.certificate) -> Endpoint:
    return endpoint_of(address, write_tls_files(ca, client.certificate, client.key))


def test_engine_with_our_certificates_is_taken_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "REQUESTS_CA_BUNDLE": "/nonexistent", "SSL_CERT_FILE": "/nonexistent", "DOCKER_HOST": "tcp://10.9.9.9:1",
        "DOCKER_TLS_VERIFY": "1", "HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with engine(SERVER, tmp_path) as address:
        check_engine(endpoint(address))


@pytest.mark.parametrize(
    ("server", "client", "ca", "field", "words"),
    [
        (sign_server(FOREIGN, [HOST], NOW, DAY), CLIENT, OURS, "ca", "not signed by this authority"),
        (SERVER, CLIENT, FOREIGN, "ca", "not signed by this authority"),
        (OLD_SERVER, CLIENT, OURS, "ca", "has expired"),
        (sign_server(OURS, ["10.0.0.7"], NOW, DAY), CLIENT, OURS, "ca", "for other names than 127.0.0.1"),
        (sign_client(OURS, HOST, NOW, DAY), CLIENT, OURS, "ca", "not one of a server"),
        (FOREIGN, CLIENT, OURS, "ca", "signed by itself"),
        (SERVER, sign_client(FOREIGN, "berth", NOW, DAY), OURS, "certificate", "does not accept Berth’s"),
        (SERVER, OLD_CLIENT, OURS, "certificate", "does not accept Berth’s"),
        (SERVER, sign_server(OURS, [HOST], NOW, DAY), OURS, "certificate", "does not accept Berth’s"),
    ],
    ids=["foreign server", "wrong authority", "expired server", "another name", "client as server", "self-signed",
         "foreign client", "expired client", "server as client"],
)  # fmt: skip
def test_wrong_certificate_is_named(
    tmp_path: Path, server: Issued, client: Issued, ca: Issued, field: str, words: str
) -> None:
    with engine(server, tmp_path) as address, pytest.raises(InvalidInput, match=words) as caught:
        check_engine(endpoint(address, client, ca.certificate))
    assert list(caught.value.fields) == [field]


PODMAN = {**DOCKER, "Version": "4.3.1", "Components": [{"Name": "Podman Engine"}]}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (PODMAN, "it is Podman, not a Docker engine"),
        ({**DOCKER, "Version": "19.03.15"}, "Docker 19.03.15, which is too old"),
        (b"<html>It works!</html>", "not as a Docker engine does"),
        ({"hello": "there"}, "something else, not a Docker engine"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not as a Docker engine does"),
    ],
    ids=["podman", "too old", "web server", "other JSON", "SSH server"],
)
def test_what_is_no_docker_engine_is_named(
    tmp_path: Path, answer: dict[str, Any] | bytes, words: str
) -> None:
    with engine(None, tmp_path, answer) as address, pytest.raises(InvalidInput, match=words):
        check_engine(endpoint_of(address, PlainText()))


def test_plain_port_is_named_when_certificates_are_tried(tmp_path: Path) -> None:
    with (
        engine(None, tmp_path, b"SSH-2.0-OpenSSH_9.2\r\n") as address,
        pytest.raises(InvalidInput, match="does not speak TLS"),
    ):
        check_engine(endpoint(address))


def test_closed_port_is_named() -> None:
    with socket.create_server((HOST, 0)) as listener:
        address = f"tcp://{HOST}:{listener.getsockname()[1]}"
    with pytest.raises(Unavailable, match="refused"):
        check_engine(endpoint(address))


def pasted(
    ca: str = OURS.certificate, certificate: str = CLIENT.certificate, key: str = CLIENT.key
) -> PastedCertificates:
    return PastedCertificates(ca, certificate, key)


def test_certificates_that_belong_together_are_taken() -> None:
    check_certificates(pasted(), NOW)


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        (pasted(key=SERVER.key), "key", "does not belong"),
        (pasted(certificate=CLIENT.key, key=CLIENT.certificate), "certificate", "swapped"),
        (pasted(key=CLIENT.certificate), "key", "swapped"),
        (pasted(ca=CLIENT.certificate), "ca", "once more"),
        (pasted(ca="nonsense"), "ca", "not a certificate"),
        (pasted(key="nonsense"), "key", "not a private key"),
        (pasted(key="-----BEGIN ENCRYPTED PRIVATE KEY-----"), "key", "passphrase"),
        (pasted(certificate=OLD_CLIENT.certificate, key=OLD_CLIENT.key), "certificate", "ended on"),
        (pasted(certificate=SERVER.certificate, key=SERVER.key), "certificate", "that of a server"),
    ],
)  # fmt: skip
def test_pasted_certificate_that_is_wrong_is_named(wrong: PastedCertificates, field: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        check_certificates(wrong, NOW)
    assert list(caught.value.fields) == [field]
