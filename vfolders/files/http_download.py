"""Builds the HTTP response for a file of a folder, for REST and pages.

Files are untrusted: they are sent only as attachments without a specific type, and a browser that
displays one nevertheless is restricted to a sandbox without scripts and origin.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from weakref import WeakSet

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date, quote_etag

from common.http.downloads import attachment_header
from common.rest.request_body import piece_bytes
from vfolders.access_watch import Watch
from vfolders.core.http_range import ByteRange, UnsatisfiableRange, parse_range
from vfolders.storage.base import OpenFile
from vfolders.storage.descriptors import closing


class _FileBody:
    """Bytes of one range, read as fast as the client takes them; Django calls `close`. The next piece
    is read while one is sent. Breaks off with PermissionDenied or NotFound when the right to read ends.
    """

    def __init__(self, opened: OpenFile, part: ByteRange, watch: Watch) -> None:
        self._opened = opened
        self._part = part
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        position, end = self._part.start, self._part.start + self._part.length
        _open.add(self)
        following = asyncio.ensure_future(self._read(position, end))
        try:
            while position < end:
                await self._watch.acheck()
                piece = await following
                if not piece:
                    return  # truncated by a session meanwhile: the client gets fewer bytes than announced
                position += len(piece)
                following = asyncio.ensure_future(self._read(position, end))
                yield piece
        finally:
            _open.discard(self)
            following.cancel()

    async def _read(self, position: int, end: int) -> bytes:
        length = min(piece_bytes(len(_open)), end - position)
        if length <= 0:
            return b""
        descriptor = os.dup(self._opened.stream.fileno())  # of the call, which may outlive a stalled host

        def read() -> bytes:
            with closing(descriptor):
                return os.pread(descriptor, length, position)

        calls = self._opened.calls
        return await (calls.arun(read) if calls else asyncio.to_thread(read))

    def close(self) -> None:
        self._opened.stream.close()


_open: WeakSet[_FileBody] = WeakSet()
"""Files that this process sends now; together they hold little memory."""


def download(request: HttpRequest, opened: OpenFile, name: str, watch: Watch) -> HttpResponseBase:
    """Return a 200, 206, 304 or 416 response; takes ownership of `opened` and closes it."""
    response = _answer(request, opened, watch)
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = quote_etag(opened.etag)
    response["Last-Modified"] = http_date(opened.modified_at.timestamp())
    response["Cache-Control"] = "private, no-cache"
    response["Content-Disposition"] = attachment_header(name)
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["X-Content-Type-Options"] = "nosniff"
    if not response.streaming:
        opened.stream.close()
    return response


def show(request: HttpRequest, opened: OpenFile, media_type: str, watch: Watch) -> HttpResponseBase:
    """Return a response that browsers display as this type of image, in a sandbox of its own if it is
    opened alone. Takes ownership of `opened`.
    """
    response = download(request, opened, "", watch)
    response["Content-Disposition"] = "inline"
    if response.status_code in {200, 206}:
        response["Content-Type"] = media_type
    return response


def _answer(request: HttpRequest, opened: OpenFile, watch: Watch) -> HttpResponseBase:
    modified_s = int(opened.modified_at.timestamp())
    unchanged = get_conditional_response(request, etag=quote_etag(opened.etag), last_modified=modified_s)
    if unchanged is not None:
        return unchanged
    try:
        part = _wanted_part(request, opened)
    except UnsatisfiableRange:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{opened.size_bytes}"})

    whole = ByteRange(0, opened.size_bytes)
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str((part or whole).length),
    }
    if part is not None:
        headers["Content-Range"] = part.content_range(opened.size_bytes)
    status = 206 if part else 200
    if request.method == "HEAD":
        return HttpResponse(status=status, headers=headers)
    return StreamingHttpResponse(_FileBody(opened, part or whole, watch), status=status, headers=headers)


def _wanted_part(request: HttpRequest, opened: OpenFile) -> ByteRange | None:
    """Return the requested range; None if the whole file must be sent, also if it changed since the
    client got the first part.
    """
    condition = request.headers.get("If-Range", "")
    if condition not in {"", quote_etag(opened.etag), http_date(opened.modified_at.timestamp())}:
        return None
    return parse_range(request.headers.get("Range", ""), opened.size_bytes)
