"""Read and write files in running containers: list, download, upload, archives, with access checks.

`open_files` checks access with database queries; all other functions are asynchronous and talk to
the engine (streams re-check access every few seconds).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.logins.service import Login, valid_logins
from agents.models import Agent
from agents.runtime.port import ContainerGone, RuntimeFault
from agents.runtime.port_files import (
    ContainerFiles,
    Entry,
    EntryType,
    PathForbidden,
    PathMissing,
    PathUnfit,
    Place,
)
from agents.selectors import async_runtime_of
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.db.streaming import in_own_thread
from common.errors import (
    BerthError,
    Conflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from common.messaging.access_revocation import RECHECK_S
from common.messaging.concurrency import ConcurrencyLimit, TooManyOpen
from common.values.resources import format_bytes
from sessions_app.container_io.tar_stream import ArchiveRefused, IntoSession, out_of_session, screen
from sessions_app.core.container_paths import UnfitPath, parse_container_path, parse_file_path, parse_mode
from sessions_app.models import Interaction, SessionIdle
from sessions_app.selectors import Action, access_session, running_kernel

LISTED_ENTRIES = 2000
UPLOAD_BYTES = 8 * 2**30
DOWNLOAD_BYTES = 64 * 2**30
UNKNOWN_LIMIT_S = 30
UPLOAD_ENTRIES = 200_000
UPLOAD_LINKS = 50_000

open_transfers = ConcurrencyLimit("transfers", 8)


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """Access to the files of one container, granted to one actor and sign-in."""

    actor: Actor
    login: Login
    session_id: UUID
    agent: Agent
    container: str

    @property
    def port(self) -> ContainerFiles:
        return async_runtime_of(self.agent).files(self.container)


@dataclass(frozen=True, slots=True)
class Download:
    """A regular file or directory that was found and is readable by the session's user."""

    files: OpenFiles
    place: Place


def open_files(
    *, actor: Actor, login: Login, session_id: UUID, kernel_name: str = "main1", action: str = ""
) -> OpenFiles:
    """Return access to the files of a running kernel.

    With `action`, also write an audit entry of that name and record user activity. Raises NotFound,
    PermissionDenied, Conflict.
    """
    session = access_session(actor, session_id, Action.OPEN_TERMINAL)
    kernel = running_kernel(session, kernel_name)

    if action:
        audit_log.record(actor=actor, action=action, target=session)
        SessionIdle.objects.record_activity(session.pk, Interaction.COMMAND, clock.now())
    return OpenFiles(actor, login, session.pk, kernel.placed_agent, kernel.container_name)


async def stat_path(files: OpenFiles, path: str) -> tuple[str, Entry]:
    """Return (normalised path, entry); a symbolic link is described itself, not its target."""
    parsed = _path(path)
    with _translated_errors():
        return parsed, (await files.port.find(parsed, follows_link=False)).entry


async def list_directory(files: OpenFiles, path: str) -> tuple[str, list[Entry], bool]:
    """Return (path, entries, is_complete): at most LISTED_ENTRIES entries, ordered by name."""
    parsed = _path(path)
    with _translated_errors():
        entries, is_complete = await files.port.list_directory(parsed, LISTED_ENTRIES)
    return parsed, entries, is_complete


async def find_entry(files: OpenFiles, path: str, wanted: EntryType) -> Download:
    """Find the file or directory at `path` for streaming; symbolic links are followed.

    Raises Conflict if it is of another type or the root, PermissionDenied if it is not readable.
    """
    parsed = _path(path)
    with _translated_errors():
        place = await files.port.find(parsed, follows_link=True)
    if place.path == "/":
        raise Conflict(
            _("The root of a container is not to be copied."), hint=_("Ask for a directory below it.")
        )
    if place.entry.type is not wanted:
        raise _wrong_type(parsed, place.entry.type)
    if not place.is_readable:
        raise PermissionDenied(_("The session's user may not read {path}.").format(path=parsed))
    return Download(files, place)


async def stream_file(download: Download) -> AsyncGenerator[bytes, None]:
    """Yield as many bytes as the file had when it was found. Raises Unavailable if it became shorter."""
    left = download.place.entry.size_bytes
    async with _counted_transfer(download.files):
        async with aclosing(download.files.port.read(download.place)) as pieces:
            async for piece in _while_allowed(download.files, pieces):
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return
    if left:
        sentence = _("{path} became shorter while it was read.")
        raise Unavailable(sentence.format(path=download.place.path))


async def stream_directory(download: Download) -> AsyncGenerator[bytes, None]:
    """Yield a tar of the readable content of the directory; names are relative to it. Raises
    TooLarge beyond DOWNLOAD_BYTES.
    """
    sent = 0
    async with _counted_transfer(download.files):
        async with aclosing(download.files.port.pack(download.place)) as packed:
            async with aclosing(screen(packed, out_of_session)) as pieces:
                async for piece in _while_allowed(download.files, pieces):
                    sent += len(piece)
                    if sent > DOWNLOAD_BYTES:
                        raise _too_large(DOWNLOAD_BYTES)
                    yield piece


async def write_file(
    files: OpenFiles, path: str, content: AsyncIterable[bytes], mode: str = ""
) -> tuple[str, Entry]:
    """Create or replace the file atomically, with missing directories. Returns (path, entry)."""
    with _unfit_paths():
        directory, name = parse_file_path(path)
        bits = parse_mode(mode) if mode else 0o644

    async with _counted_transfer(files):
        async with _staging(files, directory) as staging:
            await staging.write(name, bits, _bounded(content))
            await staging.commit()
    return await stat_path(files, f"{directory.rstrip('/')}/{name}")


async def write_archive(
    files: OpenFiles, path: str, archive: AsyncIterable[bytes]
) -> tuple[str, IntoSession]:
    """Unpack a tar into the directory, over existing files, atomically: a refused archive changes
    nothing. Returns (path, the rule with its counts of entries and bytes).
    """
    directory = _path(path)
    async with _counted_transfer(files):
        rule = IntoSession(entries_limit=UPLOAD_ENTRIES, links_limit=UPLOAD_LINKS, bytes_limit=UPLOAD_BYTES)
        async with _staging(files, directory) as staging:
            await staging.unpack(screen(archive, rule))
            await staging.commit()
    return directory, rule


def _wrong_type(path: str, found: EntryType) -> Conflict:
    if found is EntryType.DIRECTORY:
        return Conflict(
            _("{path} is a directory, not a file.").format(path=path), hint=_("Ask for “archive”.")
        )
    if found is EntryType.FILE:
        return Conflict(
            _("{path} is a file, not a directory.").format(path=path), hint=_("Ask for “content”.")
        )
    return Conflict(_("{path} is neither a file nor a directory.").format(path=path))


async def _bounded(content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    sent = 0
    async for piece in content:
        sent += len(piece)
        if sent > UPLOAD_BYTES:
            raise _too_large(UPLOAD_BYTES)
        yield piece


async def _while_allowed(files: OpenFiles, pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield `pieces` while access lasts, none later than 5 s after it has ended. Raises
    PermissionDenied then, or when the database has not answered for UNKNOWN_LIMIT_S.
    """
    now = asyncio.get_running_loop().time
    looked_at = known_at = now()
    async for piece in pieces:
        if now() - looked_at > RECHECK_S:
            looked_at = now()
            try:
                is_allowed = await in_own_thread(partial(_is_allowed, files))
                known_at = now()
            except DatabaseError:
                is_allowed = now() - known_at < UNKNOWN_LIMIT_S
            if not is_allowed:
                raise PermissionDenied(_("Access has ended: the session stopped, or you were signed out."))
        yield piece


def _is_allowed(files: OpenFiles) -> bool:
    try:
        session = access_session(files.actor, files.session_id, Action.OPEN_TERMINAL)
    except BerthError:
        return False
    is_allowed = session.is_running and files.login in valid_logins([files.login])
    if is_allowed:  # a transfer in progress counts as user activity
        SessionIdle.objects.record_activity(files.session_id, Interaction.COMMAND, clock.now())
    return is_allowed


@asynccontextmanager
async def _staging(files: OpenFiles, directory: str) -> Any:
    staging = await files.port.stage(directory)
    try:
        yield staging
    finally:
        await staging.discard()


@asynccontextmanager
async def _counted_transfer(files: OpenFiles) -> AsyncIterator[None]:
    """Count one more transfer of the user. Raises TooManyRequests at the limit."""
    try:
        async with open_transfers.hold(files.login.user_id):
            with _translated_errors():
                yield
    except TooManyOpen:
        limit = open_transfers.limit
        raise TooManyRequests(
            ngettext(
                "{count} of your transfers is under way, as many as there may be.",
                "{count} of your transfers are under way, as many as there may be.",
                limit,
            ).format(count=limit),
            hint=_("Wait for one to end."),
        ) from None


def _path(text: str) -> str:
    with _unfit_paths():
        return parse_container_path(text)


@contextmanager
def _unfit_paths() -> Iterator[None]:
    try:
        yield
    except UnfitPath as error:
        raise InvalidInput(str(error), fields={"path": [str(error)]}) from error


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Translate errors of the engine and of archives into errors for users."""
    try:
        yield
    except ArchiveRefused as error:
        raise InvalidInput(str(error)) from error
    except PathMissing as error:
        raise NotFound(str(error)) from error
    except PathForbidden as error:
        raise PermissionDenied(str(error)) from error
    except PathUnfit as error:
        raise Conflict(str(error)) from error
    except ContainerGone as error:
        raise Conflict(_("The container is gone, or its image has no shell.")) from error
    except RuntimeFault as error:
        sentence = _("The session's machine does not answer: {error}")
        raise Unavailable(sentence.format(error=error)) from error


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        _("This is more than {limit}.").format(limit=format_bytes(limit)),
        hint=_("Move so much through a folder."),
    )
