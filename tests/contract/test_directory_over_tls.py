"""LDAP over TLS with valid and invalid certificates."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from accounts.core.identity_providers import LdapDirectory, OnboardingRules
from accounts.sign_in.ldap import authenticate_by_ldap
from tests.doubles import directory_server as there
from tests.doubles.directory_server import DirectoryServer

# Success, with the name of StartTLS; before it stands the number of the message that it answers.
STARTTLS_ACCEPTED = bytes.fromhex("781f0a0100040004008a16") + b"1.3.6.1.4.1.1466.20037"
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[DirectoryServer]:
    running = DirectoryServer()
    yield running
    running.close()


class Authority:
    """Signs certificates of directories; all is kept in files below `home`."""

    def __init__(self, home: Path, name: str) -> None:
        self.home, self.name = home, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.path = home / f"{name}.pem"
        self.path.write_bytes(pem(self._signed(self.name, self.key, x509.BasicConstraints(True, None))))

    def chain(self, host: str, *, ends: datetime = NOW + timedelta(days=1)) -> Path:
        """A file with the certificate of `host` and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)]
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "directory")])
        path = self.home / f"{host}-{ends.timestamp()}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(pem(self._signed(subject, key, names, ends=ends)) + private)
        return path

    def _signed(
        self, subject: x509.Name, key: Any, extension: Any, *, ends: datetime = NOW + timedelta(days=2)
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(NOW - timedelta(days=3)).not_valid_after(ends)
        return builder.add_extension(extension, critical=False).sign(self.key, hashes.SHA256())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class TlsFront:
    """Speaks TLS, at once or after StartTLS, in front of a directory that does not."""

    def __init__(self, chain: Path, behind: str, *, starts_tls: bool) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(chain)
        self._behind, self._starts_tls = int(behind.rpartition(":")[2]), starts_tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                plain = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(plain,), daemon=True).start()

    def _answer(self, plain: socket.socket) -> None:
        try:
            if self._starts_tls:
                asked = plain.recv(4096)
                answer = asked[2 : 4 + asked[3]] + STARTTLS_ACCEPTED
                plain.sendall(bytes((0x30, len(answer))) + answer)
            with (
                self._context.wrap_socket(plain, server_side=True) as front,
                socket.create_connection(("127.0.0.1", self._behind)) as back,
            ):
                threading.Thread(target=pump, args=(back, front), daemon=True).start()
                pump(front, back)
        except OSError:
            plain.close()


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


@pytest.mark.parametrize("starts_tls", [False, True])
@pytest.mark.parametrize(
    ("case", "fault"),
    [("right", ""), ("expired", "has expired"), ("wrong host", "another host"), ("unknown", "not trusted")],
)
def test_a_directory_is_believed_with_a_right_certificate_alone(
    server: DirectoryServer, tmp_path: Path, starts_tls: bool, case: str, fault: str
) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    chains = {
        "right": lambda: ours.chain("localhost"),
        "expired": lambda: ours.chain("localhost", ends=NOW - timedelta(hours=1)),
        "wrong host": lambda: ours.chain("ldap.elsewhere.example"),
        "unknown": lambda: theirs.chain("localhost"),
    }
    front = TlsFront(chains[case](), server.url, starts_tls=starts_tls)
    scheme = "ldap" if starts_tls else "ldaps"
    its = LdapDirectory(
        url=f"{scheme}://localhost:{front.port}", starts_tls=starts_tls, bind_dn=there.BIND_DN, secret=there.SECRET,
        base=there.BASE, filter="(mail={login})", email_attribute="mail", name_attribute="cn",
        group_attribute="memberOf", onboarding=OnboardingRules(trusts=("berth.example",)), ca_file=str(ours.path),
    )  # fmt: skip
    with capture_logs() as lines:
        claim = authenticate_by_ldap(its, "ada@berth.example", there.PASSWORD)
    front.close()
    assert (claim is not None) == (case == "right")
    told = [line for line in lines if line["event"] == "ldap.certificate_refused"]
    assert [fault in line["fault"] for line in told] == ([True] if fault else []), lines
    assert there.PASSWORD not in str(lines)
    assert there.SECRET not in str(lines)
