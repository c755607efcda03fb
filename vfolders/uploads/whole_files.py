"""Uploads of a whole file in the body of one request."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4

from common.actors import Actor
from common.audit import audit_log
from common.db.streaming import in_own_thread
from common.errors import BerthError
from common.rest.request_body import RequestBody
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import EntryPath
from vfolders.core.uploads import IfExists
from vfolders.files.service import place_of_new_file
from vfolders.models import VFolder
from vfolders.selectors import calls_of, storage_of
from vfolders.storage.staging import Published, Staging
from vfolders.uploads.receiving import SYNC_S, Meter, Receiver


async def receive_file(  # noqa: PLR0913 -- all by name
    body: RequestBody,
    *,
    actor: Actor,
    folder: VFolder,
    path: EntryPath,
    watch: AccessWatch,
    if_exists: IfExists = IfExists.REPLACE,
    modified_s: float | None = None,
    require: Callable[[], None] = lambda: None,
) -> Published:
    """Create or replace the file `path` with the body; missing parents are created. Until the end
    readers see the old content, which stays if anything fails. `modified_s` is the time of its last
    change, in seconds since 1970; None: now. `require` raises if the whole file may not get its name.

    Raises what `Receiver.receive` and `Staging.publish` raise.
    """
    calls, staging = calls_of(folder.host), Staging(storage_of(folder), folder.pk)
    place = await in_own_thread(partial(place_of_new_file, folder, path))
    meter = Meter(folder, expected=body.length or 0)  # what it replaces is there until the end
    await in_own_thread(meter.begin)
    try:
        staged = await calls.arun(partial(staging.create, uuid4().hex))
        try:
            await Receiver(calls, staged, meter=meter, watch=watch).receive(body)
            await in_own_thread(watch.check)
            await in_own_thread(require)
            if modified_s is not None:
                staged.set_modified(modified_s)
            publish = partial(staging.publish, staged, place, if_exists)
            published = await calls.arun(publish, timeout_s=SYNC_S)
        except BaseException:
            with suppress(BerthError):  # a stalled host: it is removed as a left-over
                await calls.arun(partial(staging.remove, staged.name))
            raise
        finally:
            staged.close()
    except BaseException:
        await in_own_thread(partial(meter.settle, 0))
        raise

    def record() -> None:
        meter.settle(published.entry.size_bytes - published.replaced_bytes)
        audit_log.record(
            actor=actor,
            action="vfolders.write_file",
            target=folder,
            changes={"path": "/".join(published.path)},
        )

    await in_own_thread(record)
    return published
