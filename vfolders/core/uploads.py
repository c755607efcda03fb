"""Rules of uploads: names that are taken, states, and the headers of TUS 1.0 (tus.io). Pure."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from common.i18n import gettext as _
from common.values.text import check_unicode
from vfolders.core.paths import numbered_name

MAX_COPIES = 1000
MAX_LENGTH = 2**50
CHECKSUMS = ("sha1", "sha256")
MAX_PARTS = 1000


class IfExists(StrEnum):
    """Effect of an upload whose name is taken."""

    REPLACE = "replace"
    KEEP_BOTH = "keep_both"
    REFUSE = "refuse"


class UploadState(StrEnum):
    RECEIVING = "receiving"
    RECEIVED = "received"  # every byte is on the disk, aside; a part of another upload stays so
    FINISHED = "finished"  # the file has its name; the row answers clients that missed the answer


TRANSITIONS: dict[UploadState, frozenset[UploadState]] = {
    UploadState.RECEIVING: frozenset({UploadState.RECEIVED}),
    UploadState.RECEIVED: frozenset({UploadState.FINISHED}),
    UploadState.FINISHED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Checksum:
    """Digest that a piece must have; `algorithm` is one of CHECKSUMS."""

    algorithm: str
    digest: bytes


def free_names(name: str) -> Iterator[str]:
    """Yield the name, then “name (2)”, “name (3)” …"""
    yield name
    yield from (numbered_name(name, number) for number in range(2, MAX_COPIES))


def parse_metadata(header: str) -> dict[str, str]:
    """Return the pairs of Upload-Metadata; values are UTF-8 in Base64. Raises ValueError."""
    pairs = (pair.strip().partition(" ") for pair in header.split(",") if pair.strip())
    return {key: check_unicode(_decoded(value.strip()).decode()) for key, _space, value in pairs}


def parse_count(name: str, header: str) -> int:
    """Return the number of bytes in the header of this name. Raises ValueError."""
    if not header.isascii() or not header.isdecimal() or int(header[:20]) > MAX_LENGTH:
        raise ValueError(_("{name} must be a number of bytes.").format(name=name))
    return int(header)


def parse_checksum(header: str) -> Checksum | None:
    """Return the checksum in Upload-Checksum; None for "". Raises ValueError."""
    if not header:
        return None
    algorithm, _space, digest = header.partition(" ")
    if algorithm not in CHECKSUMS:
        known = ", ".join(CHECKSUMS)
        raise ValueError(_("Upload-Checksum must begin with one of {known}.").format(known=known))
    return Checksum(algorithm, _decoded(digest.strip()))


def parse_parts(header: str) -> list[UUID]:
    """Return the ids of the partial uploads in “final;URL URL …”. Raises ValueError."""
    urls = header.removeprefix("final;").split()
    ids = [found.group(1) for url in urls if (found := re.search(r"/([0-9a-f-]{36})/?$", url))]
    if not urls or len(ids) != len(urls) or len(ids) > MAX_PARTS or len(set(ids)) != len(ids):
        raise ValueError(_("Upload-Concat must be “final;” and the addresses of partial uploads."))
    return [UUID(each) for each in ids]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(_("“{text}” is not Base64.").format(text=text[:40])) from error
