"""Reads and writes the file `env` in the data directory: secrets and addresses, mode 0600."""

import fcntl
import os
import secrets
import socket
import string
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from portal.ops.setup.preflight import bind_fault

ANY_ADDRESS = frozenset({"0.0.0.0", "::"})
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# Below the ephemeral range, from which an outgoing connection could take a port between runs.
SERVER_PORTS = range(20000, 30000)
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Loopback port and password of an embedded server."""

    port: int
    password: str


def read_env(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def write_env(path: Path, values: Mapping[str, str]) -> None:
    """Replace the file atomically; it is never readable by others."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("# Written by bin/up. docs/settings.md says what each line is for.\n")
        file.writelines(f"{name}={value}\n" for name, value in values.items())
    fresh.replace(path)


def portal_url(host: str, port: int) -> str:
    """Return the portal's address; prefers localhost, as apps open on *.apps.localhost."""
    if host in LOOPBACK | ANY_ADDRESS:
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def local_names(host: str) -> list[str]:
    """Return the names and addresses of this machine if it listens on all addresses, else none."""
    if host not in ANY_ADDRESS:
        return []
    name = socket.gethostname()
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except socket.gaierror:
        addresses = set()
    return sorted({name, socket.getfqdn(), *addresses, *interface_addresses()})


def interface_addresses() -> set[str]:
    """Return the IPv4 addresses of this machine: that of the default route and those of network
    interfaces, without bridges, as those of containers come and go.
    """
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            if name == "lo" or Path(f"/sys/class/net/{name}/bridge").exists():
                continue
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("16s24x", name.encode()[:15]))
            except OSError:
                continue  # an interface without an address
            found.add(socket.inet_ntoa(answer[20:24]))
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; makes the kernel choose the local address
            found.add(probe.getsockname()[0])
        except OSError:
            pass  # a machine without network is only reachable by loopback
    return found


def updated(
    values: Mapping[str, str], *, host: str, port: int, is_given: Iterable[str] = ()
) -> dict[str, str]:
    """Return the values for this run: existing ones are kept, missing ones generated, addresses
    follow the options.

    `is_given` names variables set in the caller's environment; they are not stored.
    """
    given = set(is_given)
    fresh = dict(values)
    fresh.setdefault("BERTH_SECRET_KEY", secrets.token_urlsafe(48))
    fresh.setdefault("BERTH_INSTALLATION", new_installation_id())
    fresh.setdefault("BERTH_CONTAINER_UID", str(os.getuid() or 1000))
    fresh.setdefault("BERTH_CONTAINER_GID", str(os.getgid() or 1000))
    fresh.setdefault("BERTH_APPS_DOMAIN", "apps.localhost")
    fresh["BERTH_URL"] = portal_url(host, port)
    known = [name for name in fresh.get("BERTH_HOSTS", "").split(",") if name]
    if names := sorted({*known, *local_names(host)}):
        fresh["BERTH_HOSTS"] = ",".join(names)
    if "DATABASE_URL" not in given:
        database = server_address(fresh.get("DATABASE_URL"))
        fresh["DATABASE_URL"] = f"postgres://berth:{database.password}@127.0.0.1:{database.port}/berth"
    if "REDIS_URL" not in given:
        redis = server_address(fresh.get("REDIS_URL"))
        fresh["REDIS_URL"] = f"redis://:{redis.password}@127.0.0.1:{redis.port}/0"
    return fresh


def server_address(url: str | None) -> ServerAddress:
    """Return port and password of an embedded server: with a new port if it is taken."""
    parts = urlsplit(url or "")
    password = parts.password or secrets.token_urlsafe(24)
    if parts.port and bind_fault("127.0.0.1", parts.port) is None:
        return ServerAddress(parts.port, password)
    return ServerAddress(free_port(), password)


def parse_server_address(url: str) -> ServerAddress:
    """Parse an address written by updated()."""
    parts = urlsplit(url)
    return ServerAddress(int(parts.port or 0), str(parts.password))


def free_port() -> int:
    while True:
        port = secrets.choice(SERVER_PORTS)
        if bind_fault("127.0.0.1", port) is None:
            return port


def new_installation_id() -> str:
    """Return an id of eight characters that labels our engine objects, as engines can be shared."""
    alphabet = string.ascii_lowercase + string.digits
    return secrets.choice(string.ascii_lowercase) + "".join(secrets.choice(alphabet) for _ in range(7))
