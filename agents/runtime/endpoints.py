"""Endpoints of engines: addresses with what Berth needs to be let in."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from agents.runtime import ssh_tunnels
from agents.runtime.addresses import SIMULATED, SSH, UNIX
from agents.runtime.port import Credentials, PlainText, RuntimeRefused, SshMaterial, TlsMaterial

KEPT_S = 24 * 3600
HOST_KEY_FILE, KEY_FILE = "host_key", "ssh_key"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`address` is told to people; `url` is connected to: unix:///path, or tcp://host:port, over TLS
    if there is material for it.
    """

    address: str
    url: str
    tls: TlsMaterial | None = field(default=None)

    @property
    def is_socket(self) -> bool:
        return self.url.startswith(UNIX)

    @property
    def http_url(self) -> str:
        """Base of URLs for HTTP clients that were given the socket or the certificates already."""
        if self.is_socket:
            return "http://engine"
        return self.url.replace("tcp://", "https://" if self.tls else "http://", 1)

    def explain(self, why: str) -> str:
        """Return the reason of a failed connection: that of the tunnel, if there is one."""
        failure = ssh_tunnels.last_failure(self.address)
        return failure.shown() if failure else why


def endpoint_of(address: str, credentials: Credentials | None) -> Endpoint:
    """Return how an engine is connected to. Raises RuntimeRefused for a network address without
    credentials, unless an administrator allowed plain text.
    """
    if address.startswith((UNIX, SIMULATED)):
        return Endpoint(address, address)
    if address.startswith(SSH):
        if not isinstance(credentials, SshMaterial):
            raise RuntimeRefused(f"Engine {address}: Berth has no key for it. Add the machine again.")
        return Endpoint(address, f"{UNIX}{ssh_tunnels.socket_of(address, credentials)}")
    if isinstance(credentials, TlsMaterial):
        return Endpoint(address, address, credentials)
    if isinstance(credentials, PlainText):
        return Endpoint(address, address)
    raise RuntimeRefused(f"Engine {address}: only a local socket may be used without certificates.")


def write_tls_files(ca: str, certificate: str, key: str) -> TlsMaterial:
    """Write PEM texts below the data directory, readable for this account alone, and return their
    paths; the libraries that connect to engines take files only.
    """
    directory = _write({"ca.pem": ca, "cert.pem": certificate, "key.pem": key})
    return TlsMaterial(*(str(directory / name) for name in ("ca.pem", "cert.pem", "key.pem")))


def write_ssh_files(host_key: str, key: str) -> str:
    """Write keys of SSH likewise, for processes that have no database, and return their directory."""
    return str(_write({HOST_KEY_FILE: host_key, KEY_FILE: key}))


def remove_old_files(kept: Collection[Path]) -> None:
    """Remove what was written a day ago or earlier, except these directories."""
    if not (home := _home()).is_dir():
        return
    before = time.time() - KEPT_S
    for directory in home.iterdir():
        if directory not in kept and directory.lstat().st_mtime < before:
            shutil.rmtree(directory, ignore_errors=True)


def _home() -> Path:
    home: Path = settings.DATA_DIR / "connections"
    return home


def _write(texts: Mapping[str, str]) -> Path:
    """Write files in a directory named after their contents, which exists wholly or not at all, also after
    a power failure.
    """
    digest = hashlib.sha256("\x00".join(texts.values()).encode()).hexdigest()[:32]
    directory = (home := _home()) / digest
    if not directory.is_dir():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".", dir=home))
        for name, text in texts.items():
            with os.fdopen(os.open(made / name, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        _sync(made)
        try:
            made.rename(directory)
        except OSError:  # another process was faster
            shutil.rmtree(made)
        _sync(home)
    return directory


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
