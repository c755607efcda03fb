"""What a kernel wrote: from the engine while its container exists, from what was kept afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID

from channels.db import database_sync_to_async

from agents.runtime.base import ContainerGone, RuntimeFault
from agents.selectors import async_runtime_of, runtime_of
from common.actors import Actor
from common.errors import BerthError, Unavailable
from sessions_app.models import Kernel
from sessions_app.selectors import Action, access_session, kept_log
from sessions_app.states import Status

SHOWN_BYTES = 4 * 2**20
POLL_S = 0.5
RECHECK_S = 5.0
END_PATIENCE_S = 15.0


def read_log(kernel: Kernel) -> bytes:
    """All that is there now, at most 4 MiB. Raises Unavailable if the engine does not answer."""
    if kernel.session.is_live and kernel.agent is not None:
        try:
            return runtime_of(kernel.agent).read_logs(kernel.container_name, limit_bytes=SHOWN_BYTES)
        except ContainerGone:
            pass
        except RuntimeFault as error:
            raise Unavailable(f"The machine {kernel.agent.name} does not answer: {error}") from error
    return kept_log(kernel)


async def follow_log(actor: Actor, kernel: Kernel) -> AsyncIterator[bytes]:
    """Output as it comes, from the beginning until the container ends; waits while it has not begun.

    Ends too when the actor may not read it any more, at most 5 s later.
    """
    while (state := await _log_state(actor, kernel.session_id, kernel.name)) == "waiting":
        await asyncio.sleep(POLL_S)
    if state == "live":
        fresh = await database_sync_to_async(_reload)(kernel)
        try:
            async with aclosing(
                async_runtime_of(fresh.placed_agent).follow_logs(fresh.container_name)
            ) as chunks:
                async for chunk in _until_refused(actor, fresh, chunks):
                    yield chunk
            await _until_ended(actor, kernel)
            return
        except ContainerGone:
            pass
        except RuntimeFault as error:
            yield f"\n[The machine does not answer: {error}]\n".encode()
            return
    if state != "refused":
        yield await database_sync_to_async(kept_log)(kernel)


async def _until_ended(actor: Actor, kernel: Kernel) -> None:
    """Wait until the session whose output is complete has its end and exit code too, for a bounded time: whoever reads
    the log to its end asks for these next."""
    for _ in range(int(END_PATIENCE_S / POLL_S)):
        if await _log_state(actor, kernel.session_id, kernel.name) != "live":
            return
        await asyncio.sleep(POLL_S)


async def _until_refused(actor: Actor, kernel: Kernel, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`chunks` until the actor loses the right to them; asked every 5 s, also while nothing comes."""
    pending: asyncio.Task[bytes] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(chunks))  # type: ignore[arg-type]
            done, _ = await asyncio.wait({pending}, timeout=RECHECK_S)
            if not done:
                if await _log_state(actor, kernel.session_id, kernel.name) == "refused":
                    return
                continue
            task, pending = pending, None
            try:
                yield task.result()
            except StopAsyncIteration:
                return
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})  # the stream can be closed only when nobody reads it any more


@database_sync_to_async
def _log_state(actor: Actor, session_id: UUID, kernel_name: str) -> str:
    try:
        session = access_session(actor, session_id, Action.READ_LOGS)
    except BerthError:
        return "refused"
    if not session.is_live:
        return "ended"
    return "live" if session.status in (Status.RUNNING, Status.TERMINATING) else "waiting"


def _reload(kernel: Kernel) -> Kernel:
    return Kernel.objects.select_related("agent", "session").get(pk=kernel.pk)
