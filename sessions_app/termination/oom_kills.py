"""Records programs killed for lack of memory in a session, and explains them to users.

The session continues: its container and app server survive the kill.
"""

from collections.abc import Mapping
from datetime import datetime

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F

from agents.runtime.port import ContainerRuntime, ContainerState
from common.i18n import gettext_noop
from common.values.resources import MEM, format_bytes
from common.values.stored_message import StoredMessage
from sessions_app.core.container_spec import INSTALLATION_LABEL
from sessions_app.lifecycle import updates
from sessions_app.models import ComputeSession, Kernel

log = structlog.get_logger(__name__)

KILLED_EXIT_CODE = 137
KILLED_ONCE = gettext_noop(
    "Program killed: it wanted more memory than the session's {limit} (peak {peak})."
    " Work on less at a time, or start again with more memory."
)
KILLED_OFTEN = gettext_noop(
    "Program killed: it wanted more memory than the session's {limit} (peak {peak}, {count} times so far)."
    " Work on less at a time, or start again with more memory."
)


def record_memory_kills(kernels: Mapping[str, Kernel], runtime: ContainerRuntime) -> None:
    """Record new kills of these kernels, given by container name. One engine call if there are none."""
    if not kernels:
        return
    kills = runtime.list_memory_kills({INSTALLATION_LABEL: settings.BERTH_INSTALLATION})
    for name, kernel in kernels.items():
        known = kernel.memory_killed_at
        news = [kill.at for kill in kills if kill.container == name and (known is None or kill.at > known)]
        if news:
            _record(kernel, len(news), max(news))


def record_memory_kill_at_end(kernel: Kernel, state: ContainerState) -> None:
    """Record a kill of a container that has ended; its engine reports only that there was one."""
    if state.was_oom_killed and not kernel.memory_kills and state.finished_at is not None:
        _record(kernel, 1, state.finished_at)


def has_ended_for_memory(kernel: Kernel, state: ContainerState) -> bool:
    """Return True if the container ended because of a memory kill.

    False if a command succeeded nevertheless, or if another program of an interactive session was
    killed earlier.
    """
    if not state.was_oom_killed:
        return False
    return state.exit_code != 0 if kernel.session.command else state.exit_code == KILLED_EXIT_CODE


@transaction.atomic
def _record(kernel: Kernel, count: int, at: datetime) -> None:
    """Record the kills once, even with concurrent calls.

    The peak is the limit, where the kernel kills.
    """
    unseen = Kernel.objects.filter(pk=kernel.pk, memory_kills=kernel.memory_kills)
    peak = kernel.slots[MEM]
    if not unseen.update(memory_kills=F("memory_kills") + count, memory_killed_at=at, memory_peak_bytes=peak):
        return
    kernel.memory_kills, kernel.memory_killed_at, kernel.memory_peak_bytes = (
        kernel.memory_kills + count,
        at,
        peak,
    )
    log.info("session.memory_kill", session_id=str(kernel.session_id), kills=count, peak_bytes=peak)
    updates.push_session_change(kernel.session)


def killed_kernel(session: ComputeSession) -> Kernel | None:
    """Return the kernel with the latest memory kill, or None. No query if it came `with_parts`."""
    killed = [
        (each.memory_killed_at, each.name, each) for each in session.kernels.all() if each.memory_killed_at
    ]
    return max(killed)[-1] if killed else None


def memory_kill_message(session: ComputeSession, kernel: Kernel) -> StoredMessage:
    """Return a sentence about the kills for users; empty (false) if there were none."""
    if not kernel.memory_kills or kernel.memory_peak_bytes is None:
        return StoredMessage()
    sizes = {"limit": format_bytes(kernel.slots[MEM]), "peak": format_bytes(kernel.memory_peak_bytes)}
    if kernel.memory_kills == 1:
        return StoredMessage(KILLED_ONCE, sizes)
    return StoredMessage(KILLED_OFTEN, {**sizes, "count": kernel.memory_kills})
