"""Uploads of many small files in one request."""

from functools import partial
from typing import Any

from common.actors import Actor
from common.audit import audit_log
from common.db.streaming import in_own_thread
from common.errors import BerthError, InvalidInput, invalid_field
from common.rest.request_body import RequestBody
from vfolders import usage
from vfolders.access_watch import AccessWatch
from vfolders.core.bundles import BundledFile, BundleParser
from vfolders.core.paths import EntryPath, parse_path
from vfolders.core.uploads import IfExists
from vfolders.files.service import place_of_new_file
from vfolders.models import VFolder
from vfolders.selectors import calls_of, storage_of
from vfolders.storage.staging import Published, Staging
from vfolders.uploads.receiving import SYNC_S

Result = dict[str, Any]
BATCH_FILES = 128


class BundleReceiver:
    """Receives one bundle; `results` tells of each file so far, in order: {path, size_bytes}, or
    {path, error} with the body of a refusal. A file with a result stays, whatever happens next.
    """

    def __init__(self, *, actor: Actor, folder: VFolder, if_exists: IfExists, watch: AccessWatch) -> None:
        self._actor, self._folder, self._if_exists, self._watch = actor, folder, if_exists, watch
        self.results: list[Result] = []

    async def receive(self, body: RequestBody) -> None:
        """Store the files of the body as they arrive. Raises InvalidInput (no bundle), ClientGone, and
        what ends all of them: LimitExceeded, PermissionDenied, StorageUnavailable.
        """
        parser, batch = BundleParser(), list[BundledFile]()
        async for parts in body:
            await self._watch.acheck()
            try:
                for file in parser.feed(parts):
                    batch.append(file)
                    if len(batch) == BATCH_FILES:
                        await self._store(batch)
                        batch = []
            except ValueError as error:
                await self._store(batch)
                raise InvalidInput(str(error)) from error
            await self._store(batch)
            batch = []
        with invalid_field("body"):
            parser.end()

    async def _store(self, batch: list[BundledFile]) -> None:
        if not batch:
            return
        places = await in_own_thread(partial(self._admit, batch))
        contents = [
            (place, file.content)
            for place, file in zip(places, batch, strict=True)
            if isinstance(place, tuple)
        ]
        staging = Staging(storage_of(self._folder), self._folder.pk)
        reserved = sum(len(content) for _place, content in contents)
        await in_own_thread(partial(usage.reserve, self._folder, reserved))
        try:
            publish = partial(staging.publish_all, contents, self._if_exists)
            outcomes = iter(await calls_of(self._folder.host).arun(publish, timeout_s=SYNC_S))
        except BaseException:
            await in_own_thread(partial(usage.add_bytes, self._folder, -reserved))
            raise
        met = [next(outcomes) if isinstance(place, tuple) else place for place in places]
        self.results += [_result(file, outcome) for file, outcome in zip(batch, met, strict=True)]
        made = [each for each in met if isinstance(each, Published)]
        await in_own_thread(partial(self._record, made, reserved))

    def _admit(self, batch: list[BundledFile]) -> list[EntryPath | BerthError]:
        self._watch.check()
        return [self._place(file) for file in batch]

    def _place(self, file: BundledFile) -> EntryPath | BerthError:
        try:
            with invalid_field("path"):
                path = parse_path(file.path)
            return place_of_new_file(self._folder, path)
        except BerthError as error:
            return error

    def _record(self, made: list[Published], reserved: int) -> None:
        kept = sum(each.entry.size_bytes - each.replaced_bytes for each in made)
        usage.add_bytes(self._folder, kept - reserved)
        paths = ["/".join(each.path) for each in made]
        if paths:
            audit_log.record(
                actor=self._actor,
                action="vfolders.write_files",
                target=self._folder,
                changes={"paths": paths},
            )


def _result(file: BundledFile, outcome: Published | BerthError) -> Result:
    if isinstance(outcome, Published):
        return {"path": "/".join(outcome.path), "size_bytes": outcome.entry.size_bytes}
    return {"path": file.path, "error": outcome.to_json()}
