"""Checks running containers, and ends sessions whose container has ended or vanished."""

from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.utils.translation import gettext_noop

from agents.runtime.port import ContainerRuntime, ContainerState, ContainerStatus
from common import clock
from common.actors import SYSTEM
from common.values.stored_message import StoredMessage
from sessions_app.core.states import Reason
from sessions_app.launch.terminator import lost_grace
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import Kernel
from sessions_app.termination.oom_kills import has_ended_for_memory, record_memory_kill_at_end
from sessions_app.termination.oom_kills import memory_kill_message as memory_sentence
from sessions_app.termination.service import begin_termination

log = structlog.get_logger(__name__)


LEEWAY = timedelta(minutes=1)

MEMBER_ENDED = gettext_noop("The container {name} ended, and the session needs all of its containers.")

STARTED_ANEW = gettext_noop("The machine was started anew, which ended all that ran there.")


def try_begin_termination(
    session_id: UUID, reason: Reason, *, exit_code: int | None = None, message: StoredMessage | None = None
) -> None:
    try:
        begin_termination(session_id, reason=reason, actor=SYSTEM, exit_code=exit_code, message=message)
    except IllegalTransition:
        log.info("reconcile.overtaken", session_id=str(session_id), reason=reason)


_MACHINE_END_REASONS = (Reason.COMMAND_FINISHED, Reason.COMMAND_FAILED, Reason.CONTAINER_EXITED)


def record_address(kernel: Kernel, state: ContainerState) -> None:
    """Save the container's new network address, which changes if it is restarted on its machine.

    The old address may be reassigned.
    """
    address = next(iter(state.addresses.values()), None)
    if address != kernel.address:
        log.warning("reconcile.moved", container=state.name, frm=kernel.address, to=address)
        Kernel.objects.filter(pk=kernel.pk).update(address=address)


def is_up(state: ContainerState | None) -> bool:
    return state is not None and state.status in (ContainerStatus.RUNNING, ContainerStatus.PAUSED)


def check_running(kernel: Kernel, runtime: ContainerRuntime, booted_at: datetime | None = None) -> None:
    """End the session of a container that ended or vanished, unless it goes on without it.

    The list may be older than the row, so the container is inspected again first. `booted_at` is
    that of its machine (`EngineInfo`).
    """
    state = runtime.inspect_container(kernel.container_name)
    if is_up(state) or not Kernel.objects.filter(pk=kernel.pk, attempt=kernel.attempt).exists():
        return  # or the container belongs to an earlier attempt
    reason = reason_for_end(kernel, state)
    went_down = reason in _MACHINE_END_REASONS and ended_with_machine(state, booted_at)
    reason = Reason.AGENT_LOST if went_down else reason
    exit_code = state.exit_code if state is not None else None
    if exit_code is not None:
        Kernel.objects.filter(pk=kernel.pk).update(exit_code=exit_code)
    if state is not None:
        record_memory_kill_at_end(kernel, state)
    if not kernel.is_main and (kernel.is_tolerated or reason is Reason.COMMAND_FINISHED):
        record_end(kernel)
        return
    message = memory_sentence(kernel.session, kernel) if reason is Reason.OUT_OF_MEMORY else None
    if message is None and not kernel.is_main:
        message = StoredMessage(MEMBER_ENDED, {"name": kernel.name})
    message = StoredMessage(STARTED_ANEW) if went_down else message
    try_begin_termination(kernel.session_id, reason, exit_code=exit_code, message=message)


def record_end(kernel: Kernel) -> None:
    """Record that the container ended and its session goes on. It keeps its allocation until the end of
    the session, as its machine may have to be asked for its log.
    """
    log.info("reconcile.member_ended", session_id=str(kernel.session_id), container=kernel.name)
    Kernel.objects.filter(pk=kernel.pk, attempt=kernel.attempt).update(ended_at=clock.now())


def ended_with_machine(state: ContainerState | None, booted_at: datetime | None) -> bool:
    """Return True if the container ended because its machine or engine restarted.

    A machine that shuts down in order ends programs like a user does, and they may even exit with
    0. So exit code 0 counts as success only long before the restart.
    """
    if state is None or state.started_at is None or state.finished_at is None or booted_at is None:
        return False
    began, ended = state.started_at, state.finished_at
    # A container that was up during the restart is recorded as ended a moment later; all instants
    # are by the engine's clock.
    was_there = began < booted_at and ended < booted_at + LEEWAY
    stopped_within = lost_grace() + LEEWAY  # after longer absence the agent is lost
    return was_there and (booted_at - ended < stopped_within or state.exit_code != 0)


def reason_for_end(kernel: Kernel, state: ContainerState | None) -> Reason:
    """Return the reason code for the end of a container; `state` None: it vanished."""
    if state is None:
        return Reason.CONTAINER_LOST
    if has_ended_for_memory(kernel, state):
        return Reason.OUT_OF_MEMORY
    if not kernel.is_main and not kernel.command:  # it was to wait for commands of main1
        return Reason.COMMAND_FAILED if kernel.session.command else Reason.CONTAINER_EXITED
    if not kernel.session.command:
        return Reason.CONTAINER_EXITED
    return Reason.COMMAND_FINISHED if state.exit_code == 0 else Reason.COMMAND_FAILED
