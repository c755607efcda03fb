"""Parses `Cookie` and `Set-Cookie` values as browsers write them. Pure."""

from collections.abc import Iterator

_BLANK = b" \t"


def pairs(cookie_header: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, value) of each cookie in the browser's order: longer paths first. A cookie
    without "=" has the name b"".
    """
    for part in cookie_header.split(b";"):
        text = part.strip(_BLANK)
        if not text:
            continue
        name, is_named, value = text.partition(b"=")
        yield (name.strip(_BLANK), value.strip(_BLANK)) if is_named else (b"", text)


def joined(cookies: Iterator[tuple[bytes, bytes]] | list[tuple[bytes, bytes]]) -> bytes:
    return b"; ".join(name + b"=" + value for name, value in cookies)


def set_cookie_name(set_cookie: bytes) -> bytes:
    """Return the name that a browser would store; b"" for a cookie without one, which can imitate
    any other when sent.
    """
    pair = set_cookie.partition(b";")[0]
    name, is_named, _ = pair.partition(b"=")
    return name.strip(_BLANK) if is_named else b""


def has_attribute(set_cookie: bytes, name: bytes) -> bool:
    """Return True if a Set-Cookie value has this attribute (`HttpOnly`, `Secure` …)."""
    attributes = set_cookie.lower().split(b";")[1:]
    return any(attribute.partition(b"=")[0].strip(_BLANK) == name.lower() for attribute in attributes)
