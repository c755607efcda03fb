"""Logs of containers on a Docker engine: the end of a log, and following it live without losing
entries.

Only these guarantees of engines are used: a log read without following is in order and complete
from its oldest kept entry to the newest, even during rotation; `tail` counts entries from the end.
Engines before 23 repeat or skip entries in a followed log when a file is full, and may end it then,
so following only signals that there is more to read. `since` cannot be used, because pieces of a
long line carry the timestamp of its beginning.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from agents.runtime.docker.async_http import EngineHttp
from agents.runtime.docker.connection import (
    ANSWER_BYTES,
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    READ_BYTES,
    EngineClient,
    raise_refusal,
    understood,
)
from agents.runtime.docker.deadlines import Limits, limited
from agents.runtime.docker.encoding import FRAME_HEADER_LENGTH, state_of_inspection
from agents.runtime.docker.log_entries import (
    START,
    EntrySearch,
    LogEntry,
    LogPart,
    LogPosition,
    LogTail,
    TextSearch,
    identity_of,
    part_of,
    text_of,
)
from agents.runtime.docker.log_previews import previews
from agents.runtime.port import ContainerStatus, RuntimeRefused

ALL = "all"
TAILS = (100, 1_000, 10_000)
"""Numbers of entries at the end of a log that are searched in turn for the position; each costs the
engine ten times as much as the one before.
"""

HELD_BYTES = 2**20
"""A log up to this size is read once for a new reader; a larger one is first scanned to find
whether it is complete.
"""

PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
"""Longest pause between two reads. The pause grows with the duration of the read, so that many
readers of busy logs do not use a whole core.
"""

BELL_S = 10.0
"""Seconds after which a log is read again even if the engine did not signal more."""

SILENCE_S = 60.0
LOG_TIMEOUT_S = 900
"""Seconds for the whole log of an ended container, on a slow link."""

LOG_LIMITS = Limits(CONNECT_TIMEOUT_S, CALL_TIMEOUT_S, CALL_TIMEOUT_S, LOG_TIMEOUT_S)
LINE_PIECES = 3
"""Number of entries that `last_line` reads; engines split longer lines into pieces of 16 KiB."""

ENTRY_LIMIT_BYTES = 2**20
"""Limit of one entry; engines split lines into pieces of 16 KiB."""

ENTRY_BYTES = 69
"""Bytes that the json-file driver writes beside the text of an entry."""

WRITTEN_AS_TWO = b'"\\\n\r\t'
WRITTEN_AS_SIX = bytes(set(range(32)) - set(WRITTEN_AS_TWO)) + b"<>&"


class EntrySplitter:
    """Decoder of the engine's frames with timestamps: feed received data, get the complete entries. Raises
    RuntimeRefused for an entry of more than ENTRY_LIMIT_BYTES, which would be collected in memory.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[LogEntry]:
        data = self._rest + data
        entries, start = [], 0
        while len(data) - start >= FRAME_HEADER_LENGTH:
            begin = start + FRAME_HEADER_LENGTH
            end = begin + int.from_bytes(data[begin - 4 : begin], "big")
            if end > len(data):
                if end - begin > ENTRY_LIMIT_BYTES:
                    raise RuntimeRefused(f"The engine sent a log entry of {end - begin} bytes.")
                break
            at, _, text = data[begin:end].partition(b" ")
            entries.append(LogEntry(data[start], at, text))
            start = end
        self._rest = data[start:]
        return entries


def stored_bytes(entries: Sequence[LogEntry]) -> int:
    """Return the approximate size of these entries in a log file of the json-file driver, which
    escapes text as Go does.
    """
    text = text_of(entries)
    longer = len(text) - len(text.translate(None, WRITTEN_AS_TWO))
    longer += 5 * (len(text) - len(text.translate(None, WRITTEN_AS_SIX)))
    if not text.isascii():
        longer += 5 * text.decode(errors="replace").count("\ufffd")
    return len(text) + longer + ENTRY_BYTES * len(entries)


def least_left_bytes(inspection: dict[str, Any]) -> float:
    """Return the minimum size of a log whose beginning was dropped: all its files but one are full."""
    config = inspection["HostConfig"]["LogConfig"].get("Config") or {}
    if "max-size" not in config:
        return float("inf")
    return 0.95 * int(config["max-size"]) * (int(config.get("max-file", 1)) - 1)


def read_tail(client: EngineClient, name: str, limit_bytes: int) -> LogTail:
    """Return the end of a log.
    It is read whole, since the engine keeps little enough for memory. Raises APIError, RuntimeRefused.
    """
    least_left = least_left_bytes(client.inspect_container(name))
    url = client.url_of(f"/containers/{name}/logs")
    splitter, entries, read_bytes = EntrySplitter(), list[LogEntry](), 0
    with limited(LOG_LIMITS), client.get(url, params=_query(ALL), stream=True) as answer:
        raise_refusal(answer)
        while data := answer.raw.read1(READ_BYTES):
            entries += splitter.feed(data)
            read_bytes += len(data)
            if read_bytes > ANSWER_BYTES:
                raise RuntimeRefused(f"The log of {name} has more than {ANSWER_BYTES} bytes.")
    return LogTail(tuple(entries), is_cut=stored_bytes(entries) >= least_left).last(limit_bytes)


async def last_line(http: EngineHttp, name: str) -> bytes:
    """Return the last complete line of a log; one of more than LINE_PIECES pieces loses its begin."""
    async with aclosing(_read(http, name, str(LINE_PIECES + 1))) as batches:
        text = b"".join([entry.text async for batch in batches for entry in batch])
    return text[: text.rfind(b"\n") + 1].rstrip(b"\n").rpartition(b"\n")[2]


async def follow(
    http: EngineHttp, name: str, position: LogPosition, *, has_previews: bool
) -> AsyncGenerator[LogPart, None]:
    """Yield the entries after `position` until the container has ended and its log was read to the
    end.
    """
    lines = 0
    while True:
        began_at = monotonic()
        # Inspected before the log is read: if the container has ended by then, the log is complete.
        inspection = await http.call("GET", f"/containers/{name}/json")
        with understood(http.address):
            least_left, status = least_left_bytes(inspection), state_of_inspection(inspection).status
        unread = _unread(http, name, position, least_left, likely_lines=lines)
        lines = 0
        async with aclosing(unread) as parts:
            async for part in parts:
                position = part.position
                lines += part.text.count(b"\n")
                yield part
        if status in (ContainerStatus.EXITED, ContainerStatus.DEAD):
            return
        await asyncio.sleep(min(max(PAUSE_S, 2 * (monotonic() - began_at)), LONGEST_PAUSE_S))
        if not has_previews:
            await _until_more(http, name, position)
            continue
        async with aclosing(previews(http, name, _until_more(http, name, position))) as texts:
            async for text in texts:
                yield LogPart(text, position, is_preview=True)


async def _unread(
    http: EngineHttp, name: str, position: LogPosition, least_left: float, *, likely_lines: int
) -> AsyncGenerator[LogPart, None]:
    """Yield the present entries after `position`.
    `likely_lines` is the number of lines of the last round, by which the tail to search is chosen.
    """
    if position == START:
        async with http.scans:
            beginning = await _beginning(http, name, least_left)
        if beginning.whole is not None:
            if beginning.whole:
                yield part_of(beginning.whole, position)
            return
        first, has_gap = beginning.first, beginning.is_dropped
    else:
        for tail in _tails_for(position, likely_lines):
            search = EntrySearch(position, is_whole=tail == ALL)
            async with aclosing(_found(http, name, tail, search)) as parts:
                async for part in parts:
                    yield part
            if search.is_found:
                return
        if search.may_be_renumbered:
            by_text = TextSearch(position)
            async with aclosing(_found(http, name, ALL, by_text)) as parts:
                async for part in parts:
                    yield part
            if by_text.is_found:
                return
        first, has_gap = None, True
    async with aclosing(_read(http, name, ALL)) as batches:
        async for batch in batches:
            part = part_of(batch, position, has_gap=has_gap or first not in (None, batch[0]))
            position, first, has_gap = part.position, None, False
            yield part


def _tails_for(position: LogPosition, likely_lines: int) -> list[str]:
    """Return the values of `tail` to search for `position`, in order; the last is the whole log."""
    if position.reach is None:
        return [ALL]
    least = max(TAILS[0], position.reach + 2 * likely_lines)
    return [str(least), *(str(tail) for tail in TAILS if tail > least), ALL]


async def _found(
    http: EngineHttp, name: str, tail: str, search: EntrySearch | TextSearch
) -> AsyncGenerator[LogPart, None]:
    """Yield the entries after the position that `search` looks for, if it is in this tail."""
    position: LogPosition | None = None
    async with aclosing(_read(http, name, tail)) as batches:
        async for batch in batches:
            if fresh := search.feed(batch):
                part = part_of(fresh, position or search.position)
                position = part.position
                yield part


@dataclass(frozen=True, slots=True)
class _Beginning:
    """First kept entry of a log. `is_dropped`: earlier entries may have been dropped.
    `whole`: all entries of a small and complete log.
    """

    first: LogEntry | None
    is_dropped: bool
    whole: list[LogEntry] | None = None


async def _beginning(http: EngineHttp, name: str, least_left: float) -> _Beginning:
    first: LogEntry | None = None
    held, stored = list[LogEntry](), 0
    async with aclosing(_read(http, name, ALL)) as batches:
        async for batch in batches:
            first = first or batch[0]
            stored += stored_bytes(batch)
            if stored >= least_left:
                return _Beginning(first, is_dropped=True)
            if stored <= HELD_BYTES:
                held += batch
            else:
                held.clear()
    return _Beginning(first, is_dropped=False, whole=held if stored <= HELD_BYTES else None)


async def _until_more(http: EngineHttp, name: str, position: LogPosition) -> None:
    """Wait until the log has more after `position` or ends, at most BELL_S."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BELL_S), aclosing(_read(http, name, "1", is_followed=True)) as batches:
            is_first = True
            async for batch in batches:
                # Another piece of the same line may look equal.
                if not is_first or len(batch) > 1 or identity_of(batch[-1]) != position.last:
                    return
                is_first = False


async def _read(
    http: EngineHttp, name: str, tail: str, *, is_followed: bool = False
) -> AsyncGenerator[list[LogEntry], None]:
    """Yield the entries of a log in batches as they arrive."""
    splitter = EntrySplitter()
    query = _query(tail) | ({"follow": "1"} if is_followed else {})
    silence_s = None if is_followed else SILENCE_S
    async with http.download(f"/containers/{name}/logs", silence_s=silence_s, **query) as answer:
        async for data in answer:
            if entries := splitter.feed(data):
                yield entries


def _query(tail: str) -> dict[str, str]:
    return {"stdout": "1", "stderr": "1", "timestamps": "1", "tail": tail}
