"""Makes engines and rows agree, both ways, and lets nothing outstay its deadline. Right if it alone ran."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import connection, transaction
from django.utils.translation import gettext_noop

from agents.core.states import AgentState
from agents.machines.observation import demand_own_engine
from agents.models import Agent
from agents.runtime.port import (
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
from common.db.advisory_locks import held_among
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.resilience.keyed_pool import Lanes
from common.values.stored_message import KeptSentence
from sessions_app import idle, idle_facts, lifecycle, specs
from sessions_app.arrays import release_all
from sessions_app.clock_steps import follow_the_clock
from sessions_app.closed_groups import settle_closed_groups
from sessions_app.dependents import settle_all
from sessions_app.holds import release_what_is_due
from sessions_app.launcher import STOPPERS, stop_together, work_lock
from sessions_app.lifecycle import IllegalTransition
from sessions_app.memory_kills import has_ended_for_memory, note_memory_kill_at_end, note_memory_kills
from sessions_app.memory_kills import sentence as memory_sentence
from sessions_app.missing_images import settle_missing_images
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, Kernel
from sessions_app.moorings import reap_moorings, remove_network_of
from sessions_app.preemptions import settle_preemptions
from sessions_app.queueing import Hold
from sessions_app.retries import finish_or_retry
from sessions_app.selectors import sessions_past_deadline
from sessions_app.services import begin_termination
from sessions_app.states import LAUNCHING, NO_IMAGE_IN_TIME, OWN_LIMIT_OVER, Reason, Status
from sessions_app.stops import stop_what_is_due

log = structlog.get_logger(__name__)

UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A launch or an end that nobody reported on for this long is started again; whoever still works on it holds its lock.
STALE_AFTER = timedelta(seconds=5)
LOST_GRACE = timedelta(minutes=5)
STOPPED_WITHIN = LOST_GRACE + timedelta(minutes=1)  # who is away for longer is lost by then
LEEWAY = timedelta(minutes=1)
LANES = 16
ROUND_S = 10
# How often what is late is tried again: a container that cannot be killed takes a thread for a while each time.
LATE_AFTER = timedelta(seconds=60)
LATE_RETRY_S = 30
STARTED_ANEW = gettext_noop("The machine was started anew, which ended all that ran there.")

_MAY_BE_OF_ITS_MACHINE = (Reason.COMMAND_FINISHED, Reason.COMMAND_FAILED, Reason.CONTAINER_EXITED)
_lanes = Lanes[None]("reconcile", LANES)


def reconcile_sessions() -> None:
    """One round over all agents and all live sessions."""
    began_at = clock.now()
    if follow_the_clock():
        return  # what was read before is of another time
    stop_what_is_due()
    settle_preemptions(began_at)
    release_what_is_due()
    settle_all()
    settle_closed_groups()
    release_all()
    settle_missing_images()
    idle.judge_sessions(began_at)
    reconcile_agents()
    # Judged by the time at which the round began: if somebody sets the clock meanwhile, no deadline has moved along yet.
    end_sessions_of_lost_agents(began_at)
    enforce_deadlines(began_at)
    restart_stale_work()


def reconcile_agents() -> None:
    """Each agent in a lane of its own. One that takes longer than ROUND_S goes on in its lane, is left out of the next
    rounds meanwhile, and holds up nobody; one whose last heartbeat failed is left out until it is heard again."""
    agents = connected_agents().filter(last_error="")
    _lanes.run({agent.pk: partial(_reconcile_in_lane, agent) for agent in agents}, timeout_s=ROUND_S)


def _reconcile_in_lane(agent: Agent) -> None:
    try:
        reconcile_agent(agent, runtime_of(agent))
    except RuntimeFault as error:
        log.warning("reconcile.agent_failed", agent=agent.name, error=str(error))
    finally:
        connection.close()  # the lane's own


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
    alive_since = demand_own_engine(agent, runtime).alive_since if ended or strays else None
    for name, kernel in running.items():
        if is_up(found.get(name)):
            note_address(kernel, found[name])
    for kernel in ended:
        check_running(kernel, runtime, alive_since)
    ids = ids_in([found[name] for name in strays], specs.KERNEL_LABEL)
    known = set(Kernel.objects.filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    ours = {name for name in strays if ids_in([found[name]], specs.KERNEL_LABEL) & known}
    unstopped = stop_before_reaping([found[name] for name in sorted(ours)], runtime)
    for name in strays - unstopped:
        if name in ours:
            reap(found[name], agent, runtime)
        else:
            # Rows come before containers and are never deleted: this database is older than the container, restored
            # perhaps. Whoever restored it decides; `bin/down --purge` removes what is left.
            log.error("reconcile.unknown", container=name, agent=agent.name)
    note_memory_kills({name: each for name, each in running.items() if is_up(found.get(name))}, runtime)


def ids_in(things: Iterable[ContainerState | LabelledObject], label: str) -> set[UUID]:
    """The ids in this label of engine objects; labels that are no id, which somebody else wrote, are left out."""
    texts = {thing.labels.get(label, "") for thing in things}
    return {UUID(text) for text in texts if UUID_TEXT.fullmatch(text)}


def note_address(kernel: Kernel, state: ContainerState) -> None:
    """A container that somebody started anew on its machine may have another address; the old one may be given away."""
    address = next(iter(state.addresses.values()), None)
    if address != kernel.address:
        log.warning("reconcile.moved", container=state.name, frm=kernel.address, to=address)
        Kernel.objects.filter(pk=kernel.pk).update(address=address)


def is_up(state: ContainerState | None) -> bool:
    return state is not None and state.status in (ContainerStatus.RUNNING, ContainerStatus.PAUSED)


def check_running(kernel: Kernel, runtime: ContainerRuntime, alive_since: datetime | None = None) -> None:
    """End the session of a container that ended or vanished. A list may be older than the row: ask again before. `alive_since`
    is of its machine (`EngineInfo`)."""
    state = runtime.inspect_container(kernel.container_name)
    if is_up(state) or not Kernel.objects.filter(pk=kernel.pk, attempt=kernel.attempt).exists():
        return  # or it is of an attempt that is over
    reason = reason_for_end(kernel, state)
    went_down = reason in _MAY_BE_OF_ITS_MACHINE and has_gone_down_with_its_machine(state, alive_since)
    reason = Reason.AGENT_LOST if went_down else reason
    exit_code = state.exit_code if state is not None else None
    if exit_code is not None:
        Kernel.objects.filter(pk=kernel.pk).update(exit_code=exit_code)
    if state is not None:
        note_memory_kill_at_end(kernel, state)
    message = memory_sentence(kernel.session, kernel) if reason is Reason.OUT_OF_MEMORY else None
    message = KeptSentence(STARTED_ANEW) if went_down else message
    _begin_end(kernel.session_id, reason, exit_code=exit_code, message=message)


def has_gone_down_with_its_machine(state: ContainerState | None, alive_since: datetime | None) -> bool:
    """Its machine, or the engine there, stopped and came back, and with it what ran. A machine that goes down in order ends programs as
    a user does, and they may even say that all went well; only of what said so long before does one believe it."""
    if state is None or state.started_at is None or state.finished_at is None or alive_since is None:
        return False
    began, ended = state.started_at, state.finished_at
    # Who was up over it is noted as ended a moment after; all instants are by the engine's clock.
    was_there = began < alive_since and ended < alive_since + LEEWAY
    return was_there and (alive_since - ended < STOPPED_WITHIN or state.exit_code != 0)


def reason_for_end(kernel: Kernel, state: ContainerState | None) -> Reason:
    """What the end of a container means for its session."""
    if state is None:
        return Reason.CONTAINER_LOST
    if has_ended_for_memory(kernel, state):
        return Reason.OUT_OF_MEMORY
    if not kernel.session.command:
        return Reason.CONTAINER_EXITED
    return Reason.COMMAND_FINISHED if state.exit_code == 0 else Reason.COMMAND_FAILED


def stop_before_reaping(states: Iterable[ContainerState], runtime: ContainerRuntime) -> set[str]:
    """Stop containers that ran on while their machine was lost as others are stopped; what the engine refuses to stop,
    `reap` tries to remove. Returns the names of those that have to wait for the next round: one round takes one grace at
    most, as the machine's sessions are not looked at meanwhile."""
    running = [state.name for state in states if state.status is ContainerStatus.RUNNING]
    now, later = running[:STOPPERS], running[STOPPERS:]
    try:
        stop_together([(runtime, name) for name in now])
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("reconcile.not_stopped", containers=now, error=str(error))
    return set(later)


def reap(state: ContainerState, agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove the container of a session that has ended, with its network and scratch home."""
    log.warning("reconcile.reaped", container=state.name, session_id=state.labels.get(specs.SESSION_LABEL))
    try:
        runtime.remove_container(state.name)
        kernel_id, attempt = UUID(state.labels[specs.KERNEL_LABEL]), int(state.labels[specs.ATTEMPT_LABEL])
        runtime.remove_volume(specs.home_volume_name(kernel_id, attempt))
        session_id = UUID(state.labels[specs.SESSION_LABEL])
        if (
            not ComputeSession.objects.live().filter(pk=session_id).exists()
        ):  # else it is tried again, perhaps here
            remove_network_of(session_id, agent, runtime)
    except (RuntimeFault, KeyError, ValueError) as error:  # of labels that somebody else wrote
        log.warning("reconcile.leftover", container=state.name, error=str(error))


def reap_leftovers(agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove networks and scratch homes whose session has ended, and networks made ahead that no row knows: what a crash
    between two removals left."""
    labels = {specs.INSTALLATION_LABEL: settings.BERTH_INSTALLATION}
    networks, volumes = runtime.list_networks(labels), runtime.list_volumes(labels)
    demand_own_engine(agent, runtime)
    named = ids_in([*networks, *volumes], specs.SESSION_LABEL)
    ended = set(ComputeSession.objects.ended().filter(pk__in=named).values_list("pk", flat=True))
    adrift = reap_moorings(agent, (each.name for each in networks if specs.MOORING_LABEL in each.labels))
    for thing, remove in [
        *((network, runtime.remove_network) for network in networks),
        *((volume, runtime.remove_volume) for volume in volumes),
    ]:
        if ids_in([thing], specs.SESSION_LABEL) & ended or thing.name in adrift:
            try:
                remove(thing.name)
            except RuntimeFault as error:
                log.warning("reconcile.leftover", name=thing.name, agent=agent.name, error=str(error))


def end_sessions_of_lost_agents(now: datetime) -> None:
    """After the grace, the sessions of a machine that does not answer end, and what they held is given back: nobody is
    placed there. What still runs there is reaped when it comes back."""
    for agent in lost_agents(since=now - LOST_GRACE):
        kernels = Kernel.objects.filter(agent=agent, session__ended_at=None)
        for session_id in set(kernels.values_list("session_id", flat=True)):
            _begin_end(session_id, Reason.AGENT_LOST)
            _finish(session_id)


def enforce_deadlines(now: datetime) -> None:
    """End what is in its status for longer than it may be."""
    late = sessions_past_deadline(now)
    for session_id in list(late.values_list("pk", flat=True)):
        with transaction.atomic():
            # A launch or an end may have gone on since it was read.
            session = late.select_for_update().filter(pk=session_id).first()
            if session is not None:
                _end_late(session)


def _end_late(session: ComputeSession) -> None:
    status = Status(session.status)
    if status is Status.PENDING:
        _end_waiting(session)
    elif status is Status.TERMINATING:
        _insist(session.pk)
    elif status is Status.RUNNING:
        if idle_facts.is_own_limit(session):  # all other limits warn before: `idle` ends what they end
            message = None if session.command else OWN_LIMIT_OVER
            _begin_end(session.pk, Reason.COMMAND_TIMED_OUT, message=message)
    else:
        _begin_end(session.pk, Reason.DEADLINE_PASSED)


def _insist(session_id: UUID) -> None:
    """An end that is late. What the session holds is not given away while its container may run: only a machine that is
    not used any more cannot be asked."""
    agents = Agent.objects.filter(kernels__session_id=session_id)
    if agents.exclude(state=AgentState.RETIRED).exists():
        lifecycle.postpone_end(session_id)
    else:
        _finish(session_id)


def restart_stale_work() -> None:
    """Start again what a lost task or a killed worker left in the middle, and nobody works on."""
    stale = ComputeSession.objects.filter(status_changed_at__lt=clock.now() - STALE_AFTER)
    _start_again(TaskName.LAUNCH_SESSION, stale.filter(status__in=LAUNCHING))
    _start_again(TaskName.TERMINATE_SESSION, stale.filter(status=Status.TERMINATING))


def _start_again(task: TaskName, sessions: ComputeSessionQuerySet) -> None:
    """Send `task` for each session that nobody works on: once per STALE_AFTER, later once per LATE_RETRY_S, as messages
    would pile up while an engine hangs or workers are behind."""
    since = dict(sessions.values_list("pk", "status_changed_at"))
    worked_on = held_among([work_lock(session_id) for session_id in since])
    late = clock.now() - LATE_AFTER
    for session_id, changed_at in since.items():
        every_s = LATE_RETRY_S if changed_at < late else int(STALE_AFTER.total_seconds())
        if work_lock(session_id) not in worked_on and cache.add(
            f"work-asked:{task}:{session_id}", 1, timeout=every_s
        ):
            enqueue_on_commit(task, session_id=str(session_id))


def _finish(session_id: UUID) -> None:
    try:
        finish_or_retry(session_id, actor=SYSTEM)
    except IllegalTransition:
        log.info("reconcile.overtaken", session_id=str(session_id))


def _end_waiting(session: ComputeSession) -> None:
    """It waited as long as it was to, or far too long. The row is locked."""
    message = None
    if session.held_for == Hold.GROUP:
        to, reason = Status.CANCELLED, Reason.GROUP_CLOSED
    elif session.pending_timeout_s and session.held_for in (Hold.NOTHING, Hold.IMAGE):
        to, reason = Status.CANCELLED, Reason.PENDING_TIMEOUT
        message = NO_IMAGE_IN_TIME if session.held_for == Hold.IMAGE else None
    else:
        to, reason = Status.ERROR, Reason.DEADLINE_PASSED
    lifecycle.transition(session.pk, to=to, reason=reason, actor=SYSTEM, message=message)


def _begin_end(
    session_id: UUID, reason: Reason, *, exit_code: int | None = None, message: KeptSentence | None = None
) -> None:
    try:
        begin_termination(session_id, reason=reason, actor=SYSTEM, exit_code=exit_code, message=message)
    except IllegalTransition:
        log.info("reconcile.overtaken", session_id=str(session_id), reason=reason)
