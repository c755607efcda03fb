"""Writes the body of a request to a staged file.

No thread waits for the client: the event loop receives, threads of the storage host write, and the
database is asked between pieces. Memory holds two pieces of each upload.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from common.db.streaming import in_own_thread
from common.errors import BerthError, InvalidInput, NotFound, PermissionDenied
from common.i18n import gettext as _
from common.rest.request_body import ClientGone, RequestBody
from vfolders import usage
from vfolders.access_watch import AccessWatch
from vfolders.models import VFolder
from vfolders.storage.host_calls import HostCalls
from vfolders.storage.staging import StagedFile

SYNC_S = 120.0  # a slow disk may write that long
SYNC_BYTES = 64 * 2**20  # written between two syncs, so that the last one is short


class Meter:
    """Counts the bytes of an upload for its folder, a step ahead of the data, so that an announced
    size alone takes no space from others. The first `counted` bytes of the file are counted already.
    """

    def __init__(self, folder: VFolder, *, expected: int, counted: int = 0) -> None:
        self._folder, self._expected, self._counted = folder, expected, counted
        self._reserved = 0

    def begin(self) -> None:
        """Raise LimitExceeded if the expected size exceeds a limit now."""
        if self._expected > usage.STEP_BYTES:
            usage.check_bytes_fit(self._folder, self._expected - self._counted)
        self._reserve_for(min(self._expected, usage.STEP_BYTES))

    def lacks(self, size_bytes: int) -> bool:
        """Return True if `reserve` is to be called before the upload grows to this size."""
        return size_bytes - self._counted > self._reserved

    def reserve(self, size_bytes: int) -> None:
        """Count the bytes up to this size, and a step more of those expected. Raises LimitExceeded."""
        self._reserve_for(max(size_bytes, min(self._expected, size_bytes + usage.STEP_BYTES)))

    def settle(self, kept_bytes: int) -> None:
        """Replace what is reserved by what the upload added to the folder, which may be negative."""
        if change := kept_bytes - self._reserved:
            usage.add_bytes(self._folder, change)
        self._reserved = kept_bytes

    def _reserve_for(self, size_bytes: int) -> None:
        amount = size_bytes - self._counted - self._reserved
        if amount > 0:
            usage.reserve(self._folder, amount)
            self._reserved += amount


class Receiver:
    """Receives one body into one staged file, from `offset` on.

    `on_parts` runs in the thread that writes; `on_synced` gets each size that survives a power
    failure.
    """

    def __init__(
        self,
        calls: HostCalls,
        staged: StagedFile,
        *,
        meter: Meter,
        watch: AccessWatch,
        offset: int = 0,
        on_parts: Callable[[list[bytes]], None] | None = None,
        on_synced: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._calls, self._staged, self._meter, self._watch = calls, staged, meter, watch
        self._on_parts, self._on_synced = on_parts, on_synced
        self._write_task: asyncio.Task[int] | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._synced = offset
        self.offset = offset
        self.is_right_lost = False

    async def receive(self, body: RequestBody, *, most_bytes: int | None = None) -> None:
        """Write the body, at most up to `most_bytes` of the file, and sync it.

        Raises ClientGone, LimitExceeded, PermissionDenied, NotFound, StorageFull, StorageUnavailable,
        InvalidInput (the body is longer). What was written before stays in the file, up to `offset`.
        """
        try:
            async for parts in body:
                await self._write(parts, most_bytes)
        except (ClientGone, BerthError):
            with suppress(BerthError):
                await self._sync_all()
            raise
        await self._sync_all()

    async def _write(self, parts: list[bytes], most_bytes: int | None) -> None:
        await self._finish_write()
        end = self.offset + sum(map(len, parts))
        if most_bytes is not None and end > most_bytes:
            raise InvalidInput(
                _("The body is longer than the {count} bytes that were announced.").format(count=most_bytes)
            )
        if self._watch.is_due() or self._meter.lacks(end):
            await in_own_thread(lambda: self._check(end))
        if end > self.offset:
            self._write_task = asyncio.create_task(self._call_write(parts, end))

    async def _call_write(self, parts: list[bytes], end: int) -> int:
        write = self._staged.writer_of(parts, self.offset)

        def work() -> None:
            if self._on_parts is not None:
                self._on_parts(parts)
            write()

        await self._calls.arun(work)
        return end

    def _check(self, size_bytes: int) -> None:
        try:
            self._watch.check()
        except (PermissionDenied, NotFound):
            self.is_right_lost = True
            raise
        if self._meter.lacks(size_bytes):
            self._meter.reserve(size_bytes)

    async def _finish_write(self) -> None:
        """Wait for the write that ran while the next piece was received; sync in the background."""
        if self._write_task is None:
            return
        task, self._write_task = self._write_task, None
        self.offset = await task
        unsynced = self.offset - self._synced
        if self._sync_task is not None and (self._sync_task.done() or unsynced > 2 * SYNC_BYTES):
            await self._finish_sync()
        if self._sync_task is None and unsynced >= SYNC_BYTES:
            self._sync_task = asyncio.create_task(self._call_sync())

    async def _call_sync(self) -> None:
        reached = self.offset
        await self._calls.arun(self._staged.syncer(), timeout_s=SYNC_S)
        self._synced = reached
        if self._on_synced is not None:
            await self._on_synced(reached)

    async def _finish_sync(self) -> None:
        if self._sync_task is not None:
            task, self._sync_task = self._sync_task, None
            await task

    async def _sync_all(self) -> None:
        await self._finish_write()
        await self._finish_sync()
        if self.offset > self._synced:
            await self._call_sync()
