"""Read and follow the output of a kernel: from the engine while its container exists, then from the
stored log.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any
from uuid import UUID

import structlog
from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.utils.translation import gettext as _

from accounts.logins.service import Login, valid_logins
from agents.runtime.docker.log_entries import START, LogGap, LogPart
from agents.runtime.port import ContainerGone, RuntimeFault
from agents.selectors import async_runtime_of, runtime_of
from common.actors import Actor
from common.errors import BerthError, Unavailable
from common.messaging.access_revocation import RECHECK_S, revocations
from sessions_app.container_io.kept_logs import find_stored_log
from sessions_app.core.container_spec import LOG_BYTES
from sessions_app.core.states import Status
from sessions_app.models import Kernel
from sessions_app.selectors import Action, access_session

log = structlog.get_logger(__name__)

ERASE_LINE = b"\r\x1b[K"
POLL_S = 0.5
END_PATIENCE_S = 15.0
UNKNOWN_LIMIT_S = 30.0


def read_log(kernel: Kernel) -> bytes:
    """Return all present output of the kernel. Raises Unavailable if the engine does not answer."""
    return b"".join(_Writer().written(part) for part in _log_parts(kernel))


def _log_parts(kernel: Kernel) -> Iterator[LogPart]:
    if kernel.session.is_live and kernel.agent is not None:
        try:
            tail = runtime_of(kernel.agent).read_log_tail(kernel.container_name, limit_bytes=LOG_BYTES)
            return tail.parts_after(START)
        except ContainerGone:
            pass
        except RuntimeFault as error:
            sentence = _("The machine {agent} does not answer: {error}")
            raise Unavailable(sentence.format(agent=kernel.agent.name, error=error)) from error
    kept = find_stored_log(kernel)
    return kept.parts_after(START) if kept else iter(())


class _Writer:
    """Converts parts of a log to bytes and inserts a note where output is missing."""

    def __init__(self) -> None:
        self._is_in_line = False
        self._has_preview = False

    def written(self, part: LogPart) -> bytes:
        if part.is_preview:
            self._has_preview = True
            return part.text
        erased = ERASE_LINE if self._has_preview else b""
        self._has_preview = False
        note = self.note(_gap_sentence(part.gap)) if part.gap else b""
        if part.text:
            self._is_in_line = not part.text.endswith(b"\n")
        return erased + note + part.text

    def note(self, sentence: str) -> bytes:
        begin = b"\n" if self._is_in_line else b""
        self._is_in_line = False
        return begin + f"[Berth: {sentence}]\n".encode()


def _gap_sentence(gap: LogGap) -> str:
    since, until = _format_time(gap.since), _format_time(gap.until)
    if since and until:
        sentence = _(
            "Output between {since} and {until} is missing here: more was written than is kept of a log."
        )
    elif until:
        sentence = _("Output before {until} may be missing here: only the end of a long log is kept.")
    else:
        sentence = _("Output may be missing here.")
    return sentence.format(since=since, until=until)


def _format_time(at: bytes) -> str:
    """Format an engine timestamp to the millisecond; "" for an empty one."""
    date, _t, time = at.decode().rstrip("Z").partition("T")
    return f"{date} {time[:12]} UTC" if date else ""


@dataclass(frozen=True, slots=True)
class Follower:
    """Actor who follows a log, with the sign-in or token that grants the access."""

    actor: Actor
    login: Login


def follow_log(follower: Follower, kernel: Kernel, *, has_previews: bool = False) -> AsyncIterator[bytes]:
    """Yield output as it is written: the present attempt from its beginning, and all later
    attempts, until the output of the last container is complete. Waits while the session has not
    begun and while its machine does not answer.

    With `has_previews` also yields unfinished lines, e.g. progress bars, and erases them as on a
    terminal before the next output. Ends at most 5 s after the follower has lost access.
    """
    return _Following(follower, kernel, has_previews).output()


class _AccessLost(Exception):
    """Access ended while the log was followed; the output so far may be incomplete."""


class _Following:
    """State of one follower reading the logs of a kernel across attempts."""

    def __init__(self, follower: Follower, kernel: Kernel, has_previews: bool) -> None:
        self._follower = follower
        self._kernel = kernel
        self._has_previews = has_previews
        self._writer = _Writer()
        self._attempt: int | None = None
        self._is_first = True  # true if no output of an earlier attempt was yielded
        self._position = START
        self._complete_at: float | None = 0.0  # monotonic time since which the attempt is complete

    async def output(self) -> AsyncGenerator[bytes, None]:
        while (state := await _log_state(self._follower, self._kernel)).word != "refused":
            if state.kernel.attempt != self._attempt:
                async for text in self._rest():
                    yield text
                self._begin(state.kernel.attempt)
            if state.word == "ended":
                async for text in self._rest():
                    yield text
                return
            if state.word == "live" and self._complete_at is None:
                async with aclosing(self._live(state.kernel)) as texts:
                    async for text in texts:
                        yield text
            elif self._is_idle() and state.kernel.session.status == Status.RUNNING:
                return
            await asyncio.sleep(POLL_S)

    def _begin(self, attempt: int) -> None:
        self._is_first = self._attempt is None
        self._attempt, self._position, self._complete_at = attempt, START, None

    def _is_idle(self) -> bool:
        """Return True if the container's output has been complete for END_PATIENCE_S. Until then
        the follower waits for the session to end, because clients read its exit code next.
        """
        return self._complete_at is not None and monotonic() - self._complete_at > END_PATIENCE_S

    async def _live(self, kernel: Kernel) -> AsyncGenerator[bytes, None]:
        """Yield output from the engine while it has the container and answers."""
        try:
            runtime = async_runtime_of(kernel.placed_agent)
            log_parts = runtime.follow_logs(
                kernel.container_name, self._position, has_previews=self._has_previews
            )
            async with aclosing(log_parts) as parts:
                async for part in _until_refused(self._follower, kernel, parts):
                    self._position = part.position
                    yield self._writer.written(part)
            self._complete_at = monotonic()
        except _AccessLost:
            return  # `output` checks the access again and ends
        except ContainerGone:
            async for text in self._rest():
                yield text
        except RuntimeFault as error:  # not an end: `output` retries, so that the log is not cut short
            log.warning("logs.engine_lost", session_id=str(kernel.session_id), error=str(error))

    async def _rest(self) -> AsyncGenerator[bytes, None]:
        """Yield the stored output of the attempt that was not yielded before."""
        if self._complete_at is not None:
            return
        self._complete_at = monotonic()
        kept = await database_sync_to_async(find_stored_log)(self._kernel)
        has_begun = self._position != START
        if kept and (kept.attempt == self._attempt or (self._is_first and not has_begun)):
            parts = kept.parts_after(self._position)
            del kept  # free the memory: the reader may be slow
            while part := await asyncio.to_thread(next, parts, None):
                yield self._writer.written(part)
        elif has_begun:
            sentence = _("What was written after {since} was not kept.")
            yield self._writer.note(sentence.format(since=_format_time(self._position.at)))


async def _until_refused(
    follower: Follower, kernel: Kernel, parts: AsyncGenerator[LogPart, None]
) -> AsyncIterator[LogPart]:
    """Yield `parts` to their end. Raises _AccessLost when the follower loses access, even while no
    output arrives, and DatabaseError when access could not be checked for UNKNOWN_LIMIT_S.
    """
    refusal = asyncio.ensure_future(_refusal(follower, kernel))
    pending: asyncio.Task[LogPart] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(parts))  # type: ignore[arg-type]
            await asyncio.wait({pending, refusal}, return_when=asyncio.FIRST_COMPLETED)
            if refusal.done():
                refusal.result()
                raise _AccessLost
            task, pending = pending, None
            try:
                yield task.result()
            except StopAsyncIteration:
                return
    finally:
        tasks: set[asyncio.Future[Any]] = {refusal} if pending is None else {refusal, pending}
        for running in tasks:
            running.cancel()
        await asyncio.wait(tasks)  # the stream can be closed only after its reader has stopped


async def _refusal(follower: Follower, kernel: Kernel) -> None:
    """Return when the follower has lost access. Raises DatabaseError if the database does not
    answer for UNKNOWN_LIMIT_S.
    """
    known_at = asyncio.get_running_loop().time()
    with revocations.subscription() as subscriber:
        while True:
            await subscriber.wait(RECHECK_S)
            now = asyncio.get_running_loop().time()
            try:
                if (await _log_state(follower, kernel)).word == "refused":
                    return
                known_at = now
            except DatabaseError:
                if now - known_at > UNKNOWN_LIMIT_S:
                    raise


@dataclass(frozen=True, slots=True)
class _State:
    """Kernel as read now, with `word`: "waiting", "live", "ended" or "refused"."""

    word: str
    kernel: Kernel


@database_sync_to_async
def _log_state(follower: Follower, kernel: Kernel) -> _State:
    """Return the present state. Reads the kernel first, so that its attempt is never newer than the
    session's state.
    """
    fresh = Kernel.objects.select_related("agent", "session").get(pk=kernel.pk)
    return _State(_access_state(follower, fresh.session_id), fresh)


def _access_state(follower: Follower, session_id: UUID) -> str:
    user = valid_logins([follower.login]).get(follower.login)
    if user is None:
        return "refused"
    actor = replace(
        follower.actor,
        is_superadmin=user.is_superuser,
        is_monitor=user.is_monitor,
        is_domain_monitor=user.is_domain_monitor,
    )
    try:
        session = access_session(actor, session_id, Action.READ_LOGS)
    except BerthError:
        return "refused"
    if not session.is_live:
        return "ended"
    return "live" if session.status in (Status.RUNNING, Status.TERMINATING) else "waiting"
