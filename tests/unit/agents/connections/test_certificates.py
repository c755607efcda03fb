"""Certificates of Berth: accepted where they belong, refused elsewhere."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agents.connections.certificates import Issued, make_authority, sign_client, sign_server

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
OURS = make_authority("ours", NOW, 10 * DAY)
FOREIGN = make_authority("foreign", NOW, 10 * DAY)
SERVER = sign_server(OURS, ["gpu-01.example.org", "10.0.0.7", "fd00::7"], NOW, DAY)
CLIENT = sign_client(OURS, "berth", NOW, DAY)


def context(directory: Path, own: Issued, trusted: str, *, is_server: bool) -> ssl.SSLContext:
    """Return a TLS context with this certificate that demands one of the other side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=trusted)
    file = directory / f"{is_server}.pem"
    file.write_text(own.certificate + own.key)
    context.load_cert_chain(file)
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Do a TLS handshake in memory. Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)


@pytest.mark.parametrize("name", ["gpu-01.example.org", "10.0.0.7", "fd00::7"])
def test_server_and_client_accept_each_other(tmp_path: Path, name: str) -> None:
    server = context(tmp_path, SERVER, OURS.certificate, is_server=True)
    shake_hands(server, context(tmp_path, CLIENT, SERVER.authority, is_server=False), name)


@pytest.mark.parametrize(
    ("server", "client", "name"),
    [
        pytest.param(SERVER, CLIENT, "gpu-02.example.org", id="another name"),
        pytest.param(sign_server(FOREIGN, ["gpu-01.example.org"], NOW, DAY), CLIENT, "gpu-01.example.org", id="foreign server"),
        pytest.param(SERVER, sign_client(FOREIGN, "berth", NOW, DAY), "gpu-01.example.org", id="foreign client"),
        pytest.param(SERVER, SERVER, "gpu-01.example.org", id="a server's certificate as client"),
        pytest.param(CLIENT, CLIENT, "berth", id="a client's certificate as server"),
        pytest.param(SERVER, sign_client(OURS, "berth", NOW - 3 * DAY, DAY), "gpu-01.example.org", id="expired client"),
    ],
)  # fmt: skip
def test_every_other_certificate_is_refused(
    tmp_path: Path, server: Issued, client: Issued, name: str
) -> None:
    host = context(tmp_path, server, OURS.certificate, is_server=True)
    guest = context(tmp_path, client, OURS.certificate, is_server=False)
    with pytest.raises(ssl.SSLError):
        shake_hands(host, guest, name)


def test_certificate_ends_no_later_than_its_authority() -> None:
    assert sign_client(OURS, "berth", NOW, 100 * DAY).ends_at == OURS.ends_at


def test_a_server_needs_a_name() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        sign_server(OURS, [], NOW, DAY)
