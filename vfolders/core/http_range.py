"""Parses the HTTP Range header (RFC 9110 section 14), for a single byte range. Pure."""

import re
from dataclasses import dataclass

_SINGLE_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


class UnsatisfiableRange(ValueError):
    """The range begins after the end of the file: the response is 416."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """`length` bytes from `start`; never extends beyond the end of the file."""

    start: int
    length: int

    def content_range(self, size_bytes: int) -> str:
        """Return the Content-Range header of a 206 response."""
        return f"bytes {self.start}-{self.start + self.length - 1}/{size_bytes}"


def parse_range(header: str, size_bytes: int) -> ByteRange | None:
    """Return the range that `header` requests of a file of `size_bytes`; None: send the whole file.

    Several ranges, other units and malformed values are ignored, as the RFC allows. Raises
    UnsatisfiableRange.
    """
    match = _SINGLE_RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return None

    first, last = match.groups()
    if not first:
        length = min(int(last), size_bytes)
        if length == 0:
            raise UnsatisfiableRange(header)
        return ByteRange(size_bytes - length, length)

    start = int(first)
    if last and int(last) < start:
        return None
    if start >= size_bytes:
        raise UnsatisfiableRange(header)
    end = min(int(last), size_bytes - 1) if last else size_bytes - 1
    return ByteRange(start, end - start + 1)
