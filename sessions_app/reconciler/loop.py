"""Reconciler: compares engines with rows, enforces deadlines, restarts stale launches and ends."""

from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.utils.translation import gettext_noop

from agents.core.states import AgentState
from agents.machines.observation import require_own_engine
from agents.models import Agent
from agents.runtime.port import ContainerRuntime, RuntimeFault
from agents.selectors import connected_agents, lost_agents, runtime_of
from common import clock
from common.actors import SYSTEM
from common.db.advisory_locks import locked_subjects
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.resilience.keyed_pool import KeyedPool
from common.values.stored_message import StoredMessage
from sessions_app.core import container_spec
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import LAUNCHING, NO_IMAGE_IN_TIME, OWN_LIMIT_OVER, Reason, Status
from sessions_app.idle import enforcer, facts
from sessions_app.launch.launcher import work_lock
from sessions_app.launch.terminator import lost_grace
from sessions_app.lifecycle import transitions
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, Kernel
from sessions_app.queue.array_release import release_all_arrays
from sessions_app.queue.closed_groups import update_group_holds
from sessions_app.queue.dependents import settle_all_dependents
from sessions_app.queue.holds import release_due_starts, update_image_holds
from sessions_app.reconciler.clock_change import handle_clock_jump
from sessions_app.reconciler.container_check import (
    check_running,
    is_up,
    record_address,
    record_end,
    try_begin_termination,
)
from sessions_app.reconciler.garbage import ids_in, reap, stop_strays
from sessions_app.selectors import sessions_past_deadline
from sessions_app.termination.delayed_stop import run_due_stops
from sessions_app.termination.oom_kills import record_memory_kills
from sessions_app.termination.preemption import settle_preemptions
from sessions_app.termination.retries import finish_or_retry

log = structlog.get_logger(__name__)

# Age at which a launch or end without progress is restarted; a worker that still runs holds its
# lock.
STALE_AFTER = timedelta(seconds=5)

ROUND_S = 10

# Retry interval for late work: a container that cannot be killed blocks a thread each time.
LATE_AFTER = timedelta(seconds=60)

LATE_RETRY_S = 30

MACHINE_RETIRED = gettext_noop("The machine is no longer used.")

_agent_pool = KeyedPool[None]("reconcile", settings.BERTH_POOL_THREADS["reconcile"])


def reconcile_sessions() -> None:
    """Run one round over all agents and all live sessions."""
    began_at = clock.now()
    if handle_clock_jump():
        return  # timestamps read earlier are of the old clock
    run_due_stops()
    settle_preemptions(began_at)
    release_due_starts()
    settle_all_dependents()
    update_group_holds()
    release_all_arrays()
    update_image_holds()
    enforcer.enforce_idle_limits(began_at)
    reconcile_agents()
    # Compared with the start of the round: if the clock jumps meanwhile, deadlines are not shifted
    # yet.
    end_sessions_of_lost_agents(began_at)
    end_sessions_of_retired_agents()
    enforce_deadlines(began_at)
    restart_stale_work()


def reconcile_agents() -> None:
    """Reconcile each agent in its own worker thread.

    An agent that takes longer than ROUND_S continues in its thread and is skipped meanwhile,
    without delaying others. Agents whose last heartbeat failed are skipped.
    """
    agents = connected_agents().filter(last_error="")
    _agent_pool.run({agent.pk: partial(_reconcile_agent, agent) for agent in agents}, timeout_s=ROUND_S)


def _reconcile_agent(agent: Agent) -> None:
    try:
        reconcile_agent(agent, runtime_of(agent))
    except RuntimeFault as error:
        log.warning("reconcile.agent_failed", agent=agent.name, error=str(error))


def reconcile_agent(agent: Agent, runtime: ContainerRuntime) -> None:
    """Compare the containers on one machine with the kernels in the database; repair differences.

    One list call and one query if nothing differs.
    """
    found = {
        state.name: state
        for state in runtime.list_containers({container_spec.INSTALLATION_LABEL: settings.BERTH_INSTALLATION})
        if container_spec.KERNEL_LABEL in state.labels
    }
    # Read after the list: a container created in between is in neither and waits for the next
    # round.
    live = Kernel.objects.filter(agent=agent, session__ended_at=None).select_related("session")
    kernels = {kernel.container_name: kernel for kernel in live}
    running = {
        name: each
        for name, each in kernels.items()
        if each.session.status == Status.RUNNING and each.ended_at is None
    }
    ended = [kernel for name, kernel in running.items() if not is_up(found.get(name))]
    strays = found.keys() - kernels.keys()
    booted_at = require_own_engine(agent, runtime).booted_at if ended or strays else None
    for name, kernel in running.items():
        if is_up(found.get(name)):
            record_address(kernel, found[name])
    for kernel in ended:
        check_running(kernel, runtime, booted_at)
    ids = ids_in([found[name] for name in strays], container_spec.KERNEL_LABEL)
    known = set(Kernel.objects.filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    ours = {name for name in strays if ids_in([found[name]], container_spec.KERNEL_LABEL) & known}
    unstopped = stop_strays([found[name] for name in sorted(ours)], runtime)
    for name in strays - unstopped:
        if name in ours:
            reap(found[name], agent, runtime)
        else:
            # Rows precede containers and are never deleted, so this database is older than the
            # container, perhaps restored. The administrator decides; `bin/down --purge` removes
            # what is left.
            log.error("reconcile.unknown", container=name, agent=agent.name)
    record_memory_kills({name: each for name, each in running.items() if is_up(found.get(name))}, runtime)


def end_sessions_of_lost_agents(now: datetime) -> None:
    """Terminate sessions of agents that are lost for `lost_grace`, and release their allocations; a
    session that tolerates the end of its containers there goes on.

    Lost agents get no new sessions. Containers that still run there are removed when the agent
    returns.
    """
    lost = set(lost_agents(since=now - lost_grace()).values_list("pk", flat=True))
    found = Kernel.objects.filter(agent__in=lost, session__ended_at=None).select_related("session")
    kernels = list(found) if lost else []
    for kernel in kernels:
        if kernel.is_tolerated and kernel.ended_at is None and kernel.session.status == Status.RUNNING:
            record_end(kernel)
    for session_id in {kernel.session_id for kernel in kernels if not kernel.is_tolerated}:
        try_begin_termination(session_id, Reason.AGENT_LOST)
        # Containers on other machines are ended by TERMINATE_SESSION first.
        elsewhere = Kernel.objects.filter(session=session_id).exclude(agent=None).exclude(agent__in=lost)
        if not elsewhere.exists():
            _finish(session_id)


def end_sessions_of_retired_agents() -> None:
    """Terminate sessions of retired agents, which nobody watches any more. An engine that still answers
    stops their containers; otherwise they end at their deadline (`_postpone_or_finish`).
    """
    kernels = Kernel.objects.filter(agent__state=AgentState.RETIRED, session__ended_at=None)
    unended = kernels.exclude(session__status=Status.TERMINATING)
    for session_id in set(unended.values_list("session_id", flat=True)):
        try_begin_termination(session_id, Reason.AGENT_LOST, message=StoredMessage(MACHINE_RETIRED))


def enforce_deadlines(now: datetime) -> None:
    """End sessions that are past the deadline of their status."""
    late = sessions_past_deadline(now)
    for session_id in list(late.values_list("pk", flat=True)):
        with transaction.atomic():
            # The session may have moved on since the list was read.
            session = late.select_for_update().filter(pk=session_id).first()
            if session is not None:
                _end_late(session)


def _end_late(session: ComputeSession) -> None:
    status = Status(session.status)
    if status is Status.PENDING:
        _end_waiting(session)
    elif status is Status.TERMINATING:
        _postpone_or_finish(session.pk)
    elif status is Status.RUNNING:
        # the idle enforcer warns first and ends sessions for all other limits
        if facts.is_own_limit(session):
            message = None if session.command else OWN_LIMIT_OVER
            try_begin_termination(session.pk, Reason.COMMAND_TIMED_OUT, message=message)
    else:
        try_begin_termination(session.pk, Reason.DEADLINE_PASSED)


def _postpone_or_finish(session_id: UUID) -> None:
    """Postpone a late end, or finish it if its machines are retired.

    Allocations are not released while the container may run; only a retired machine cannot be
    asked.
    """
    agents = Agent.objects.filter(kernels__session_id=session_id)
    if agents.exclude(state=AgentState.RETIRED).exists():
        transitions.postpone_end(session_id)
    else:
        _finish(session_id)


def restart_stale_work() -> None:
    """Restart launches and ends that a lost task or a killed worker left unfinished."""
    stale = ComputeSession.objects.filter(status_changed_at__lt=clock.now() - STALE_AFTER)
    _start_again(TaskName.LAUNCH_SESSION, stale.filter(status__in=LAUNCHING))
    _start_again(TaskName.TERMINATE_SESSION, stale.filter(status=Status.TERMINATING))


def _start_again(task: TaskName, sessions: ComputeSessionQuerySet) -> None:
    """Send `task` for each session that no worker has locked.

    Once per STALE_AFTER, for late ones once per LATE_RETRY_S, as messages would pile up while an
    engine hangs or workers are behind.
    """
    since = dict(sessions.values_list("pk", "status_changed_at"))
    worked_on = locked_subjects([work_lock(session_id) for session_id in since])
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
    """End a session that is past the deadline of PENDING. The row is locked."""
    message = None
    if session.held_for == Hold.GROUP:
        to, reason = Status.CANCELLED, Reason.GROUP_CLOSED
    elif session.pending_timeout_s and session.held_for in (Hold.NOTHING, Hold.IMAGE):
        to, reason = Status.CANCELLED, Reason.PENDING_TIMEOUT
        message = NO_IMAGE_IN_TIME if session.held_for == Hold.IMAGE else None
    else:
        to, reason = Status.ERROR, Reason.DEADLINE_PASSED
    transitions.transition(session.pk, to=to, reason=reason, actor=SYSTEM, message=message)
