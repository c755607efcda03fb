"""Check and build URLs of a portal, path segments and paths inside folders."""

from urllib.parse import quote, urlsplit, urlunsplit

from berth.errors import InvalidInput

API_PREFIX = "/api/v1"


def portal_url(text: str) -> str:
    """Return the shortest URL of a portal, without a trailing slash. Raises InvalidInput."""
    hint = "Write it like https://berth.example.com."
    try:
        parts = urlsplit(text.strip() if "://" in text else f"{_likely_scheme(text)}://{text.strip()}")
        host, _ = parts.hostname, parts.port
    except ValueError as exc:
        raise InvalidInput(f"“{text[:80]}” is not the address of a portal.", hint=hint) from exc
    if parts.scheme not in ("http", "https") or not host or not text.isprintable() or " " in text.strip():
        raise InvalidInput(f"“{text[:80]}” is not the address of a portal.", hint=hint)
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("The address of a portal has no user name, query or fragment.", hint=hint)
    path = parts.path.rstrip("/").removesuffix(API_PREFIX).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc.lower(), path, "", ""))


def is_private_way(url: str) -> bool:
    """Return True if nobody on the network can read a token sent to `url`: TLS, or the same host."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host in ("localhost", "127.0.0.1", "::1") or host.endswith(".localhost")


def _likely_scheme(text: str) -> str:
    return "http" if is_private_way(f"http://{text.strip()}") else "https"


def segment(text: str) -> str:
    """Return `text` as one quoted path segment. Raises InvalidInput if it would change the path."""
    if text in ("", ".", ".."):
        raise InvalidInput(f"“{text}” is not a name.")
    return _quoted(text)


def relative_path(text: str) -> str:
    """Return a normalised path inside a folder; "" is the folder itself. Raises InvalidInput."""
    plain = text.strip("/")
    if plain and any(part in ("", ".", "..") for part in plain.split("/")):
        raise InvalidInput(
            f"“{text[:80]}” is not a path inside of a folder.",
            hint="Write it relative to the folder, without “.” and “..”.",
        )
    return plain


def quoted_path(text: str) -> str:
    """Return `relative_path(text)`, quoted for a URL. Raises InvalidInput."""
    return "/".join(_quoted(part) for part in relative_path(text).split("/"))


def _quoted(text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{text[:80]!r} is not UTF-8, so it cannot be sent.", hint="Rename it.") from exc
