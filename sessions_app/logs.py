"""What a kernel wrote: from the engine while its container exists, from what was kept afterwards."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import structlog
from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.utils.translation import gettext as _

from accounts.logins import Login, live_logins
from agents.runtime.base import ContainerGone, RuntimeFault
from agents.selectors import async_runtime_of, runtime_of
from common.actors import Actor
from common.errors import BerthError, Unavailable
from common.revocations import RECHECK_S, bell
from sessions_app.models import Kernel
from sessions_app.selectors import Action, access_session, kept_log
from sessions_app.states import Status

log = structlog.get_logger(__name__)

SHOWN_BYTES = 4 * 2**20
POLL_S = 0.5
END_PATIENCE_S = 15.0
UNKNOWN_LIMIT_S = 30.0


def read_log(kernel: Kernel) -> bytes:
    """All that is there now, at most 4 MiB. Raises Unavailable if the engine does not answer."""
    if kernel.session.is_live and kernel.agent is not None:
        try:
            return runtime_of(kernel.agent).read_logs(kernel.container_name, limit_bytes=SHOWN_BYTES)
        except ContainerGone:
            pass
        except RuntimeFault as error:
            sentence = _("The machine {agent} does not answer: {error}")
            raise Unavailable(sentence.format(agent=kernel.agent.name, error=error)) from error
    return kept_log(kernel)


@dataclass(frozen=True, slots=True)
class Follower:
    """Who follows a log, and by which sign-in or token."""

    actor: Actor
    login: Login


async def follow_log(follower: Follower, kernel: Kernel) -> AsyncIterator[bytes]:
    """Output as it comes, from the beginning until the container ends; waits while it has not begun, and while its
    machine does not answer.

    Ends too when the follower may not read it any more, at most 5 s later.
    """
    sent_bytes = 0
    while (state := await _log_state(follower, kernel.session_id)) in ("waiting", "live"):
        if state == "live":
            try:
                async with aclosing(_live_log(follower, kernel)) as chunks:
                    async for chunk in _without_first(sent_bytes, chunks):
                        sent_bytes += len(chunk)
                        yield chunk
                await _until_ended(follower, kernel)
                return
            except ContainerGone:
                break
            except RuntimeFault as error:  # nobody should take a part for the whole
                log.warning("logs.engine_lost", session_id=str(kernel.session_id), error=str(error))
        await asyncio.sleep(POLL_S)
    if state != "refused":
        yield (await database_sync_to_async(kept_log)(kernel))[sent_bytes:]


async def _live_log(follower: Follower, kernel: Kernel) -> AsyncGenerator[bytes, None]:
    """From the beginning, as the engine tells it. Raises RuntimeFault."""
    fresh = await database_sync_to_async(_reload)(kernel)
    async with aclosing(async_runtime_of(fresh.placed_agent).follow_logs(fresh.container_name)) as chunks:
        async for chunk in _until_refused(follower, fresh, chunks):
            yield chunk


async def _without_first(count: int, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All but the first bytes, which were sent before."""
    async for chunk in chunks:
        skipped = min(count, len(chunk))
        count -= skipped
        if skipped < len(chunk):
            yield chunk[skipped:]


async def _until_ended(follower: Follower, kernel: Kernel) -> None:
    """Wait until the session whose output is complete has its end and exit code too, for a bounded time: whoever reads
    the log to its end asks for these next."""
    for _poll in range(int(END_PATIENCE_S / POLL_S)):
        if await _log_state(follower, kernel.session_id) != "live":
            return
        await asyncio.sleep(POLL_S)


async def _until_refused(
    follower: Follower, kernel: Kernel, chunks: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """`chunks` until the follower loses the right to them, whether much comes or nothing."""
    refusal = asyncio.ensure_future(_refusal(follower, kernel.session_id))
    pending: asyncio.Task[bytes] | None = None
    try:
        while not refusal.done():
            pending = pending or asyncio.ensure_future(anext(chunks))  # type: ignore[arg-type]
            await asyncio.wait({pending, refusal}, return_when=asyncio.FIRST_COMPLETED)
            if refusal.done() or not pending.done():
                return
            task, pending = pending, None
            try:
                yield task.result()
            except StopAsyncIteration:
                return
    finally:
        tasks: set[asyncio.Future[Any]] = {refusal} if pending is None else {refusal, pending}
        for running in tasks:
            running.cancel()
        await asyncio.wait(tasks)  # the stream can be closed only when nobody reads it any more


async def _refusal(follower: Follower, session_id: UUID) -> None:
    """Returns when the follower may not read the log any more, or when nobody can say it for UNKNOWN_LIMIT_S."""
    known_at = asyncio.get_running_loop().time()
    with bell.listening() as ears:
        while True:
            await ears.wait(RECHECK_S)
            now = asyncio.get_running_loop().time()
            try:
                if await _log_state(follower, session_id) == "refused":
                    return
                known_at = now
            except DatabaseError:
                if now - known_at > UNKNOWN_LIMIT_S:
                    return


@database_sync_to_async
def _log_state(follower: Follower, session_id: UUID) -> str:
    user = live_logins([follower.login]).get(follower.login)
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


def _reload(kernel: Kernel) -> Kernel:
    return Kernel.objects.select_related("agent", "session").get(pk=kernel.pk)
