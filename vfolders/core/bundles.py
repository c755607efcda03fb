"""Bundles: many small files in one body. Pure.

A bundle is a sequence of files: a line of JSON, {"path": …, "size": …}, then the bytes of the file.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.i18n import gettext as _
from vfolders.core.paths import MAX_PATH_BYTES

MAX_FILE_BYTES = 2**20
MAX_FILES = 10_000
_MAX_LINE_BYTES = 6 * MAX_PATH_BYTES + 200  # JSON may escape each character


class BrokenBundle(ValueError):
    """The body is not a bundle; the message is a sentence for users."""


@dataclass(frozen=True, slots=True)
class BundledFile:
    """One file of a bundle; `path` is not checked yet."""

    path: str
    content: bytes


class BundleParser:
    """Parses a bundle as it arrives; holds the bytes of one file at most."""

    def __init__(self) -> None:
        self._count = 0
        self._held = bytearray()
        self._path = ""
        self._size: int | None = None

    def feed(self, parts: Sequence[bytes]) -> Iterator[BundledFile]:
        """Yield the files that are whole now. Raises BrokenBundle."""
        for part in parts:
            self._held += part
        begin = 0
        while True:
            if self._size is None:
                end = self._held.find(b"\n", begin)
                if end < 0:
                    break
                self._path, self._size = _parse_line(bytes(self._held[begin:end]))
                begin = end + 1
                self._count += 1
                if self._count > MAX_FILES:
                    raise BrokenBundle(_("A bundle has at most {count} files.").format(count=MAX_FILES))
            if len(self._held) - begin < self._size:
                break
            yield BundledFile(self._path, bytes(self._held[begin : begin + self._size]))
            begin, self._size = begin + self._size, None
        del self._held[:begin]
        if self._size is None and len(self._held) > _MAX_LINE_BYTES:
            raise _broken()

    def end(self) -> None:
        """Check that no file is cut. Raises BrokenBundle."""
        if self._held or self._size is not None:
            raise BrokenBundle(_("The bundle ends in the middle of a file."))


def _parse_line(line: bytes) -> tuple[str, int]:
    try:
        told = json.loads(line)
        path, size = told["path"], told["size"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _broken() from error
    if not isinstance(path, str) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _broken()
    if size > MAX_FILE_BYTES:
        raise BrokenBundle(_("A file in a bundle is larger than {count} bytes.").format(count=MAX_FILE_BYTES))
    return path, size


def _broken() -> BrokenBundle:
    return BrokenBundle(_("Each file of a bundle begins with a line of JSON that has its path and size."))
