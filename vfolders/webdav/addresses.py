"""Addresses of folders and their entries below /dav/. Pure.

/dav/ lists the actor's own folders by name, and groups: @<project> for the folders of a project,
@<e-mail address> for those that a person shares. Names of folders never begin with @, so that an
address keeps its meaning whatever folders are added.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

from common.i18n import gettext as _
from vfolders.core.paths import ROOT, EntryPath, UnsafePath, parse_directory

PREFIX = "/dav/"
GROUP_SIGN = "@"


class OtherServer(ValueError):
    """The address is on another server; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Address:
    """A place: the top ("", ""), a group ("@name", ""), a folder, or the entry `path` in it."""

    group: str = ""
    folder: str = ""
    path: EntryPath = ROOT

    def href(self, *, is_directory: bool) -> str:
        """Return the encoded path of the URL; that of a directory ends with a slash."""
        parts = [quote(part, safe="@") for part in (self.group, self.folder, *self.path) if part]
        return PREFIX + "/".join(parts) + ("/" if parts and is_directory else "")

    @property
    def parent(self) -> "Address":
        return Address(self.group, self.folder, self.path[:-1])


def parse_address(text: str) -> Address:
    """Return the place of a decoded URL path below /dav/. Raises UnsafePath."""
    if not text:
        return Address()
    first, *rest = parse_directory(text)
    if first.startswith(GROUP_SIGN):
        return Address(first, rest[0] if rest else "", tuple(rest[1:]))
    return Address(folder=first, path=tuple(rest))


def parse_reference(text: str, hosts: frozenset[str]) -> Address:
    """Return the place of an encoded reference, as in Destination: a URL of one of these hosts, or
    an absolute path. Raises OtherServer, UnsafePath.
    """
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise UnsafePath(_("This is not an address.")) from error
    is_path = not (parts.scheme or parts.netloc)
    if not is_path and (
        parts.scheme not in ("http", "https") or parts.netloc.rpartition("@")[2].lower() not in hosts
    ):
        raise OtherServer(_("The address is on another server."))
    if parts.query or parts.fragment:
        raise UnsafePath(
            _("An address of a file has no query and no fragment; encode the characters ? and #.")
        )
    try:
        path = unquote_to_bytes(parts.path).decode()
    except UnicodeDecodeError as error:
        raise UnsafePath(_("The path contains a NUL, or is not valid UTF-8.")) from error
    if not path.startswith(PREFIX):
        raise OtherServer(_("The address is outside of the folders."))
    return parse_address(path.removeprefix(PREFIX))
