"""References of container images, in the form that engines and registries use. Pure."""

import re
from dataclasses import dataclass

from common.i18n import gettext as _
from common.values.text import quoted

MAX_REFERENCE = 255
LOCAL = "local"  # place of images whose reference has no registry: built on a machine, or from Docker Hub

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*(?::[0-9]{{1,5}})?\Z")
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """Reference of one image.
    `host` is empty for the engine's default registry; a digest takes precedence over a tag.
    """

    repository: str
    tag: str = ""
    digest: str = ""
    host: str = ""

    def __str__(self) -> str:
        place = f"{self.host}/" if self.host else ""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{place}{self.repository}{tag}{digest}"

    @property
    def name(self) -> str:
        """Last part of the repository: "python" of "berth/python:1.0"."""
        return self.repository.rpartition("/")[2]


def parse_reference(text: str) -> ImageReference:
    """Parse a reference; without tag and digest the tag is "latest".

    `parse_reference(str(reference)) == reference`. Raises ValueError with a message that quotes the
    text.
    """
    if not text or len(text) > MAX_REFERENCE:
        raise _no_reference(text)
    rest, at, digest = text.partition("@")
    host, slash, path = rest.partition("/")
    if not slash or not _looks_like_host(host):
        host, path = "", rest
    repository, colon, tag = path.partition(":")
    is_valid = (
        _REPOSITORY.match(repository)
        and (not host or _HOST.match(host))
        and (not colon or _TAG.match(tag))
        and (not at or _DIGEST.match(digest))
    )
    if not is_valid:
        raise _no_reference(text)
    if not colon and not at:
        tag = "latest"
    return ImageReference(repository=repository, tag=tag, digest=digest, host=host)


def _no_reference(text: str) -> ValueError:
    sentence = _("{text} is not the name of an image. Write it like python:3.12 or host/group/name:tag.")
    return ValueError(sentence.format(text=quoted(text, 80)))


def place_of(reference: str) -> str:
    """Return the registry and repository of an image: "ghcr.io/acme/tool", or "local/berth/python"
    if it has no registry.
    """
    parsed = parse_reference(reference)
    return f"{parsed.host or LOCAL}/{parsed.repository}"


def _looks_like_host(first: str) -> bool:
    """True if the first part of a reference is a host: engines distinguish host/name from
    group/name by this rule only.
    """
    return "." in first or ":" in first or first == "localhost" or first != first.lower()
