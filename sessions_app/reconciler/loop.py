"""Rounds that look at engines and rows, and repair what differs."""

from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import connection, transaction

from agents.core.states import AgentState
from agents.machines.observation import demand_own_engine
from agents.models import Agent
from agents.runtime.port import (
    ContainerRuntime,
    RuntimeFault,
)
from agents.selectors import connected_agents, lost_agents, runtime_of
from common import clock
from common.actors import SYSTEM
from common.db.advisory_locks import held_among
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.resilience.keyed_pool import Lanes
from sessions_app.core import container_spec
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import LAUNCHING, NO_IMAGE_IN_TIME, OWN_LIMIT_OVER, Reason, Status
from sessions_app.idle import enforcer, facts
from sessions_app.launch.work_lock import work_lock
from sessions_app.lifecycle import transitions
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, Kernel
from sessions_app.queue.array_release import release_all
from sessions_app.queue.closed_groups import settle_closed_groups
from sessions_app.queue.dependents import settle_all
from sessions_app.queue.holds import release_what_is_due
from sessions_app.queue.missing_images import settle_missing_images
from sessions_app.reconciler.clock_change import follow_the_clock
from sessions_app.reconciler.container_check import LOST_GRACE, begin_end, check_running, is_up, note_address
from sessions_app.reconciler.garbage import ids_in, reap, stop_before_reaping
from sessions_app.selectors import sessions_past_deadline
from sessions_app.termination.delayed_stop import stop_what_is_due
from sessions_app.termination.oom_kills import (
    note_memory_kills,
)
from sessions_app.termination.preemption import settle_preemptions
from sessions_app.termination.retries import finish_or_retry

log = structlog.get_logger(__name__)

# A launch or an end that nobody reported on for this long is started again; whoever still works on it holds its lock.
STALE_AFTER = timedelta(seconds=5)

LANES = 16

ROUND_S = 10

# How often what is late is tried again: a container that cannot be killed takes a thread for a while each time.
LATE_AFTER = timedelta(seconds=60)

LATE_RETRY_S = 30

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
    enforcer.judge_sessions(began_at)
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
        for state in runtime.list_containers({container_spec.INSTALLATION_LABEL: settings.BERTH_INSTALLATION})
        if container_spec.KERNEL_LABEL in state.labels
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
    ids = ids_in([found[name] for name in strays], container_spec.KERNEL_LABEL)
    known = set(Kernel.objects.filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    ours = {name for name in strays if ids_in([found[name]], container_spec.KERNEL_LABEL) & known}
    unstopped = stop_before_reaping([found[name] for name in sorted(ours)], runtime)
    for name in strays - unstopped:
        if name in ours:
            reap(found[name], agent, runtime)
        else:
            # Rows come before containers and are never deleted: this database is older than the container, restored
            # perhaps. Whoever restored it decides; `bin/down --purge` removes what is left.
            log.error("reconcile.unknown", container=name, agent=agent.name)
    note_memory_kills({name: each for name, each in running.items() if is_up(found.get(name))}, runtime)


def end_sessions_of_lost_agents(now: datetime) -> None:
    """After the grace, the sessions of a machine that does not answer end, and what they held is given back: nobody is
    placed there. What still runs there is reaped when it comes back."""
    for agent in lost_agents(since=now - LOST_GRACE):
        kernels = Kernel.objects.filter(agent=agent, session__ended_at=None)
        for session_id in set(kernels.values_list("session_id", flat=True)):
            begin_end(session_id, Reason.AGENT_LOST)
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
        if facts.is_own_limit(session):  # all other limits warn before: `idle` ends what they end
            message = None if session.command else OWN_LIMIT_OVER
            begin_end(session.pk, Reason.COMMAND_TIMED_OUT, message=message)
    else:
        begin_end(session.pk, Reason.DEADLINE_PASSED)


def _insist(session_id: UUID) -> None:
    """An end that is late. What the session holds is not given away while its container may run: only a machine that is
    not used any more cannot be asked."""
    agents = Agent.objects.filter(kernels__session_id=session_id)
    if agents.exclude(state=AgentState.RETIRED).exists():
        transitions.postpone_end(session_id)
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
    transitions.transition(session.pk, to=to, reason=reason, actor=SYSTEM, message=message)
