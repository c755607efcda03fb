"""Parses and checks the host names, ports and secrets by which browsers reach apps. Pure."""

import re
from dataclasses import dataclass

CODE_LIFETIME_S = 30
# Prefix of a token for one app; API tokens begin with "bk".
TOKEN_PREFIX = "ba."
# 256 random bits, URL-safe.
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_HASH = re.compile(r"[0-9a-f]{64}")
_APP = r"[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?"
_LABEL = re.compile(rf"({_APP})-([a-z2-7]{{13,20}})")
_PORT = re.compile(r"p([1-9][0-9]{0,4})")
_UNSAFE_IN_PATH = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_PATH_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class AppHost:
    """App and session that a host name stands for.

    The session's label is random and never reused, because browsers keep service workers and
    storage of an origin longer than the session lives.
    """

    app: str
    session_label: str

    @property
    def label(self) -> str:
        return f"{self.app}-{self.session_label}"

    @property
    def port(self) -> int | None:
        """Port of an app that is named by its port, like p8000; else None."""
        return port_named(self.app)


@dataclass(frozen=True, slots=True)
class AppPort:
    """App at a port of the portal's own address, for browsers that cannot resolve its host name.

    An AssignedPort row says which app it is.
    """

    number: int


# Address of an app, as a browser uses it.
AppEndpoint = AppHost | AppPort


def port_named(app: str) -> int | None:
    """Return the port that a name like p8000 stands for; None for other names."""
    match = _PORT.fullmatch(app)
    port = int(match[1]) if match else 0
    return port if 0 < port < 65536 else None


def is_app_name(text: str) -> bool:
    return re.fullmatch(_APP, text) is not None


def host_name(host: str) -> str:
    """Return the name in a Host header: lower case, without port and root dot."""
    name, separator, port = host.rpartition(":")
    if not separator or not port.isdigit():
        name = host
    return name.lower().rstrip(".")


def is_under(host: str, apps_domain: str) -> bool:
    """Return True if a Host header names a host in the apps' domain."""
    return host_name(host).endswith(f".{apps_domain}")


def parse_app_host(host: str, apps_domain: str) -> AppHost | None:
    """Return the app that a Host header names; None for any other host."""
    name = host_name(host)
    if not name.endswith(f".{apps_domain}"):
        return None
    match = _LABEL.fullmatch(name[: -len(apps_domain) - 1])
    return AppHost(app=match[1], session_label=match[2]) if match else None


def is_secret(text: str) -> bool:
    """Return True if the text has the form of `accounts.core.token_secrets.new_secret`."""
    return _SECRET.fullmatch(text) is not None


def is_hash(text: str) -> bool:
    """Return True if the text has the form of `accounts.core.token_secrets.hash_secret`."""
    return _HASH.fullmatch(text) is not None


def local_path(path: str) -> str:
    r"""Return the path if every browser reads it as a path on the same host, else "/".

    Refuses a scheme, `//host`, `/\host` and control characters.
    """
    if not path.startswith("/") or path.startswith("//") or len(path) > _PATH_LIMIT:
        return "/"
    if _UNSAFE_IN_PATH.search(path) or not path.isascii():
        return "/"
    return path
