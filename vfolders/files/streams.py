"""Streams of what a walk through a folder gives, piece by piece as fast as the client takes them: ZIP
archives and hits of a search.

Each piece is one bounded call to the storage host, in a thread; before each the right is watched.
"""

import fnmatch
import json
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse

from common.actors import Actor
from common.audit import audit_log
from common.errors import BerthError, InvalidInput
from common.http.downloads import attachment_header
from common.i18n import gettext as _
from vfolders.access_watch import Watch
from vfolders.core.paths import EntryPath, display_name, is_addressable
from vfolders.core.permissions import Action
from vfolders.files.names import existing_directory, existing_path
from vfolders.selectors import access_folder, files_of
from vfolders.storage.base import Entry
from vfolders.storage.files import FolderFiles

_PIECE_BYTES = 2**20
_SEARCH_PIECE_S = 0.25
MOST_HITS = 1000
MOST_LOOKED_AT = 2_000_000
MOST_SEARCH_S = 60.0
MAX_WORDS_LENGTH = 200


class _Pieces:
    """Asynchronous iterator over an iterator that reads from a storage host; Django calls `close`."""

    def __init__(self, files: FolderFiles, watch: Watch, pieces: Iterator[bytes]) -> None:
        self._files, self._watch, self._pieces = files, watch, pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._files.arun(lambda: next(self._pieces, b"")):
            yield piece
            await self._watch.acheck()

    def close(self) -> None:
        self._pieces.close()  # type: ignore[attr-defined]  # a generator


def zip_download(
    *, actor: Actor, folder_id: UUID, paths: Sequence[str], watch: Watch
) -> StreamingHttpResponse:
    """Return a ZIP archive of the entries, or of the whole folder without any; it is packed while it is
    sent. Links are left out and named in it.
    """
    folder = access_folder(actor, folder_id, Action.READ)
    files = files_of(folder)
    wanted = [existing_path(folder, path) for path in paths]
    for path in wanted[:1]:
        files.stat(path)  # one that is missing is told before the download begins
    name = f"{wanted[0][-1]}.zip" if len(wanted) == 1 else f"{folder.name}.zip"
    changes = {"paths": ["/".join(path) for path in wanted[:20]], "count": len(wanted)}
    audit_log.record(actor=actor, action="vfolders.download_zip", target=folder, changes=changes)
    body = _Pieces(files, watch, _in_pieces(files.zip_stream(wanted)))
    response = StreamingHttpResponse(body, content_type="application/zip")
    response["Content-Disposition"] = attachment_header(name)
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


def _in_pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks joined to pieces of about _PIECE_BYTES."""
    waiting, size = [], 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def search(*, actor: Actor, folder_id: UUID, path: str, words: str, watch: Watch) -> StreamingHttpResponse:
    """Return the entries below the directory whose names contain `words`, in any case, as lines of
    JSON. With * or ? the words are a pattern for the whole name.

    The last line is {"looked_at": …, "is_complete": …}: the search ends after MOST_HITS,
    MOST_LOOKED_AT or MOST_SEARCH_S. Closing the connection ends it, too.
    """
    folder = access_folder(actor, folder_id, Action.READ)
    if not words.strip() or len(words) > MAX_WORDS_LENGTH:
        raise InvalidInput.at("q", _("Type a part of the name, at most 200 characters."))
    files = files_of(folder)
    directory = existing_directory(folder, path)
    if directory:
        files.taken_names(directory, ())
    body = _Pieces(files, watch, _search_lines(files.search(directory), _matcher(words)))
    response = StreamingHttpResponse(body, content_type="application/x-ndjson")
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _matcher(words: str) -> Callable[[str], bool]:
    wanted = _folded(words.strip())
    if any(sign in wanted for sign in "*?"):
        return lambda name: fnmatch.fnmatchcase(_folded(name), wanted.replace("[", "[[]"))
    return lambda name: wanted in _folded(name)


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def _search_lines(found: Iterator[tuple[EntryPath, Entry]], is_hit: Callable[[str], bool]) -> Iterator[bytes]:
    """Yield the hits of each quarter of a second; a line break if there was none."""
    ends_at = time.monotonic() + MOST_SEARCH_S
    looked_at = hits = 0
    is_complete = False
    try:
        while not is_complete and hits < MOST_HITS and looked_at < MOST_LOOKED_AT:
            lines, piece_ends_at = [], time.monotonic() + _SEARCH_PIECE_S
            while time.monotonic() < piece_ends_at and hits < MOST_HITS and not is_complete:
                entries = list(islice(found, 500))
                looked_at += len(entries)
                is_complete = len(entries) < 500
                for path, entry in entries:
                    if is_hit(entry.name) and hits < MOST_HITS:
                        hits += 1
                        lines.append(_line(_hit(path, entry)))
            yield b"".join(lines) or b"\n"
            if time.monotonic() > ends_at:
                break
    except BerthError as error:
        yield _line({"error": f"{error.message} {error.hint}".strip()})
    yield _line({"looked_at": looked_at, "is_complete": is_complete and hits < MOST_HITS})


def _hit(path: EntryPath, entry: Entry) -> dict[str, Any]:
    can_name = all(map(is_addressable, path))
    text = "/".join(path)
    return {
        "path": text if can_name else display_name(text),
        "name": entry.name if can_name else display_name(entry.name),
        "kind": entry.kind.value,
        "size_bytes": entry.size_bytes,
        "modified_at": entry.modified_at.isoformat().replace("+00:00", "Z"),
        "is_addressable": can_name,
    }


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
