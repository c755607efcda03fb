"""Makes engines and rows agree, both ways, and lets nothing outstay its deadline. Right if it alone ran."""

import re
from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache

from agents.models import Agent
from agents.runtime.base import (
    ContainerRuntime,
    ContainerState,
    ContainerStatus,
    LabelledObject,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.selectors import connected_agents, lost_agents, runtime_of
from common import clock
from common.actors import SYSTEM
from common.dispatch import TaskName, enqueue_on_commit
from sessions_app import lifecycle, specs
from sessions_app.lifecycle import IllegalTransition
from sessions_app.models import ComputeSession, Kernel
from sessions_app.selectors import sessions_past_deadline
from sessions_app.services import begin_termination
from sessions_app.states import Reason, Status

log = structlog.get_logger(__name__)

UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A launch or an end that nobody reported on for this long is started again; whoever still works on it holds its lock.
STALE_AFTER = timedelta(seconds=5)
LOST_GRACE = timedelta(minutes=5)


def reconcile_sessions() -> None:
    """One round over all agents and all live sessions. A machine whose last heartbeat failed is left out until it is
    heard again: waiting for it would hold up all the others."""
    for agent in connected_agents().filter(last_error=""):
        try:
            reconcile_agent(agent, runtime_of(agent))
        except RuntimeFault as error:
            log.warning("reconcile.agent_failed", agent=agent.name, error=str(error))
    end_sessions_of_lost_agents()
    enforce_deadlines()
    restart_stale_work()


def reconcile_agent(agent: Agent, runtime: ContainerRuntime) -> None:
    """Compare the containers of ours on one machine with the kernels that should be there. One list call and one query
    when nothing differs."""
    found = {
        state.name: state
        for state in runtime.list_containers({specs.INSTALLATION_LABEL: settings.BERTH_INSTALLATION})
        if specs.KERNEL_LABEL in state.labels
    }
    # Read after the list: a container that was made in between is in neither and waits for the next round.
    live = Kernel.objects.filter(agent=agent, session__ended_at=None).select_related("session")
    kernels = {kernel.container_name: kernel for kernel in live}
    running = {name: each for name, each in kernels.items() if each.session.status == Status.RUNNING}
    ended = [kernel for name, kernel in running.items() if not is_up(found.get(name))]
    strays = found.keys() - kernels.keys()
    if ended or strays:
        demand_its_engine(agent, runtime)
    for name, kernel in running.items():
        if is_up(found.get(name)):
            note_address(kernel, found[name])
    for kernel in ended:
        check_running(kernel, runtime)
    ids = ids_in([found[name] for name in strays], specs.KERNEL_LABEL)
    known = set(Kernel.objects.filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    for name in strays:
        if ids_in([found[name]], specs.KERNEL_LABEL) & known:
            reap(found[name], runtime)
        else:
            # Rows come before containers and are never deleted: this database is older than the container, restored
            # perhaps. Whoever restored it decides; `bin/down --purge` removes what is left.
            log.error("reconcile.unknown", container=name, agent=agent.name)


def ids_in(things: Iterable[ContainerState | LabelledObject], label: str) -> set[UUID]:
    """The ids in this label of engine objects; labels that are no id, which somebody else wrote, are left out."""
    texts = {thing.labels.get(label, "") for thing in things}
    return {UUID(text) for text in texts if UUID_TEXT.fullmatch(text)}


def demand_its_engine(agent: Agent, runtime: ContainerRuntime) -> None:
    """Another engine at the same address has none of the agent's containers, and those it has are another agent's.
    Raises RuntimeUnavailable; the heartbeat finds out too, and the agent is lost soon."""
    if runtime.info().engine_id != agent.engine_id:
        raise RuntimeUnavailable(f"Another engine answers at {agent.address}.")


def note_address(kernel: Kernel, state: ContainerState) -> None:
    """A container that somebody started anew on its machine may have another address; the old one may be given away."""
    address = next(iter(state.addresses.values()), None)
    if address != kernel.address:
        log.warning("reconcile.moved", container=state.name, frm=kernel.address, to=address)
        Kernel.objects.filter(pk=kernel.pk).update(address=address)


def is_up(state: ContainerState | None) -> bool:
    return state is not None and state.status in (ContainerStatus.RUNNING, ContainerStatus.PAUSED)


def check_running(kernel: Kernel, runtime: ContainerRuntime) -> None:
    """End the session of a container that ended or vanished. A list may be older than the row: ask again before."""
    state = runtime.inspect_container(kernel.container_name)
    if is_up(state):
        return
    reason = reason_for_end(kernel, state)
    exit_code = state.exit_code if state is not None else None
    if exit_code is not None:
        Kernel.objects.filter(pk=kernel.pk).update(exit_code=exit_code)
    _begin_end(kernel.session_id, reason, exit_code=exit_code)


def reason_for_end(kernel: Kernel, state: ContainerState | None) -> Reason:
    """What the end of a container means for its session."""
    if state is None:
        return Reason.CONTAINER_LOST
    if state.was_oom_killed:
        return Reason.OUT_OF_MEMORY
    if not kernel.session.command:
        return Reason.CONTAINER_EXITED
    return Reason.COMMAND_FINISHED if state.exit_code == 0 else Reason.COMMAND_FAILED


def reap(state: ContainerState, runtime: ContainerRuntime) -> None:
    """Remove the container of a session that has ended, with its network and scratch home."""
    log.warning("reconcile.reaped", container=state.name, session_id=state.labels.get(specs.SESSION_LABEL))
    try:
        runtime.remove_container(state.name)
        runtime.remove_volume(specs.home_volume_name(UUID(state.labels[specs.KERNEL_LABEL])))
        runtime.remove_network(specs.network_name(UUID(state.labels[specs.SESSION_LABEL])))
    except (RuntimeFault, KeyError, ValueError) as error:  # of labels that somebody else wrote
        log.warning("reconcile.leftover", container=state.name, error=str(error))


def reap_leftovers(agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove networks and scratch homes whose session has ended: what a crash between two removals left."""
    labels = {specs.INSTALLATION_LABEL: settings.BERTH_INSTALLATION}
    networks, volumes = runtime.list_networks(labels), runtime.list_volumes(labels)
    named = ids_in([*networks, *volumes], specs.SESSION_LABEL)
    ended = set(ComputeSession.objects.ended().filter(pk__in=named).values_list("pk", flat=True))
    for thing, remove in [
        *((network, runtime.remove_network) for network in networks),
        *((volume, runtime.remove_volume) for volume in volumes),
    ]:
        if ids_in([thing], specs.SESSION_LABEL) & ended:
            try:
                remove(thing.name)
            except RuntimeFault as error:
                log.warning("reconcile.leftover", name=thing.name, agent=agent.name, error=str(error))


def end_sessions_of_lost_agents() -> None:
    """After the grace, the sessions of a machine that does not answer end, and what they held is given back. What
    still runs there is reaped when it comes back."""
    for agent in lost_agents(since=clock.now() - LOST_GRACE):
        kernels = Kernel.objects.filter(agent=agent, session__ended_at=None)
        for session_id in set(kernels.values_list("session_id", flat=True)):
            _begin_end(session_id, Reason.AGENT_LOST)
            lifecycle.finish(session_id, actor=SYSTEM)


def enforce_deadlines() -> None:
    """End what is in its status for longer than it may be."""
    for session in sessions_past_deadline(clock.now()).only("pk", "status", "timeout_s"):
        status = Status(session.status)
        if status is Status.PENDING:
            _end_waiting(session.pk)
        elif status is Status.TERMINATING:
            log.error("end.forced", session_id=str(session.pk))
            lifecycle.finish(session.pk, actor=SYSTEM)
        elif status is Status.RUNNING:
            reason = Reason.COMMAND_TIMED_OUT if session.timeout_s else Reason.LIFETIME_OVER
            _begin_end(session.pk, reason)
        else:
            _begin_end(session.pk, Reason.DEADLINE_PASSED)


def restart_stale_work() -> None:
    """Start again what a lost task or a killed worker left in the middle."""
    stale = ComputeSession.objects.filter(status_changed_at__lt=clock.now() - STALE_AFTER)
    launching = stale.filter(status__in=[Status.SCHEDULED, Status.PREPARING, Status.STARTING])
    _enqueue_each(TaskName.LAUNCH_SESSION, launching.values_list("pk", flat=True))
    _enqueue_each(
        TaskName.TERMINATE_SESSION, stale.filter(status=Status.TERMINATING).values_list("pk", flat=True)
    )


def _enqueue_each(task: TaskName, session_ids: Iterable[UUID]) -> None:
    """Once per session and STALE_AFTER: while an engine hangs, so does each task, and they would pile up."""
    for session_id in session_ids:
        if cache.add(f"work-asked:{task}:{session_id}", 1, timeout=int(STALE_AFTER.total_seconds())):
            enqueue_on_commit(task, session_id=str(session_id))


def _end_waiting(session_id: UUID) -> None:
    try:
        lifecycle.transition(session_id, to=Status.ERROR, reason=Reason.DEADLINE_PASSED, actor=SYSTEM)
    except IllegalTransition:
        log.info("reconcile.overtaken", session_id=str(session_id), reason=Reason.DEADLINE_PASSED)


def _begin_end(session_id: UUID, reason: Reason, *, exit_code: int | None = None) -> None:
    try:
        begin_termination(session_id, reason=reason, actor=SYSTEM, exit_code=exit_code)
    except IllegalTransition:
        log.info("reconcile.overtaken", session_id=str(session_id), reason=reason)
