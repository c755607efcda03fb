"""Names and secrets of the places where browsers find apps. Pure: no Django, no I/O."""

import re
from dataclasses import dataclass

CODE_LIFETIME_S = 30
# How a token for one app begins, unlike an API token ("bk").
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
    """Which app of which session a host name means. The session's label is random and never used twice, as a browser
    keeps service workers and storage of an origin for longer than the session lives."""

    app: str
    session_label: str

    @property
    def label(self) -> str:
        return f"{self.app}-{self.session_label}"

    @property
    def port(self) -> int | None:
        """The port, where the app is named by it: p8000."""
        return port_named(self.app)


@dataclass(frozen=True, slots=True)
class AppPort:
    """An app at a port of the portal's own address, for browsers that cannot look its host up. Which app it is stands
    in an AppDoor row."""

    number: int


# Where a browser knocks.
Door = AppHost | AppPort


def port_named(app: str) -> int | None:
    """The port of a session that a name like p8000 means."""
    match = _PORT.fullmatch(app)
    port = int(match[1]) if match else 0
    return port if 0 < port < 65536 else None


def is_app_name(text: str) -> bool:
    return re.fullmatch(_APP, text) is not None


def host_name(host: str) -> str:
    """The name in a Host header: lower case, without port and root dot."""
    name, separator, port = host.rpartition(":")
    if not separator or not port.isdigit():
        name = host
    return name.lower().rstrip(".")


def is_under(host: str, apps_domain: str) -> bool:
    """Whether a Host header names something in the apps' domain."""
    return host_name(host).endswith(f".{apps_domain}")


def parse_app_host(host: str, apps_domain: str) -> AppHost | None:
    """The app that a Host header names; None for any other host."""
    name = host_name(host)
    if not name.endswith(f".{apps_domain}"):
        return None
    match = _LABEL.fullmatch(name[: -len(apps_domain) - 1])
    return AppHost(app=match[1], session_label=match[2]) if match else None


def is_secret(text: str) -> bool:
    """Whether the text could have come from `accounts.core.token_secrets.new_secret`."""
    return _SECRET.fullmatch(text) is not None


def is_hash(text: str) -> bool:
    """Whether the text could have come from `accounts.core.token_secrets.hash_secret`."""
    return _HASH.fullmatch(text) is not None


def local_path(path: str) -> str:
    """The path if a browser can only take it for one on the same host, else "/": no scheme, no `//host`, no `/\\host`,
    no control character."""
    if not path.startswith("/") or path.startswith("//") or len(path) > _PATH_LIMIT:
        return "/"
    if _UNSAFE_IN_PATH.search(path) or not path.isascii():
        return "/"
    return path
