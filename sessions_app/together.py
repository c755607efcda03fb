"""Engines that are asked together: simulated ones, which keep what they have in Redis. Thousands of them cost a round as
much as one engine of a machine; those that differ from the rows are then looked at one by one, as all others are."""

import gzip
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings
from django.db import transaction

from agents.models import Agent
from agents.runtime.base import ContainerState, ContainerStatus, RuntimeUnavailable
from agents.runtime.simulated import SimulatedRuntime
from agents.runtime.simulated_many import Removal, Start, read_outputs, remove_many, start_many
from agents.runtime.simulated_shelf import read_containers
from agents.runtime.simulated_values import log_of
from agents.selectors import runtime_of
from common.actors import SYSTEM
from common.dispatch import TaskName, enqueue_on_commit
from common.locks import try_exclusive_each
from common.prepared import prepared_cursor
from sessions_app import lifecycle, specs
from sessions_app.kept_logs import STORED_BYTES
from sessions_app.launcher import end_if_asked, work_lock
from sessions_app.models import ComputeSession, Kernel, KernelLog
from sessions_app.states import LAUNCHING, Reason, Status
from sessions_app.together_reads import (
    Launch,
    Placed,
    answering_together,
    live_on,
    read_launches,
    read_placed,
    running_alone,
)

AT_ONCE = 1000
OURS = {specs.INSTALLATION_LABEL: settings.BERTH_INSTALLATION}
_Known = Mapping[str, tuple[str, str | None]]
"""By container name: status of the session, address."""
Found = Mapping[int, Mapping[str, ContainerState]]
"""By machine: containers by name."""
# Of these engines every image is there.
_TO_START = ((Status.PREPARING, Reason.PREPARING), (Status.STARTING, Reason.IMAGE_READY))
_NOTE_CONTAINERS = f"""
    UPDATE {Kernel._meta.db_table} AS kernel SET container_id = up.container_id, address = up.address
    FROM unnest(%(ids)s::uuid[], %(containers)s::text[], %(addresses)s::inet[]) AS up (id, container_id, address)
    WHERE kernel.id = up.id
"""
_NOTE_CODES = f"UPDATE {Kernel._meta.db_table} SET exit_code = %(code)s WHERE session_id = ANY(%(sessions)s)"


def differing(found: Found) -> Iterator[int]:
    """Ids of those of these machines whose containers are not as the rows say. One query for all."""
    known: dict[int, dict[str, tuple[str, str | None]]] = defaultdict(dict)
    # Read after the lists: a container that was made in between is in neither and waits for the next round.
    for agent_id, kernel_id, attempt, status, address in live_on(found.keys()):
        known[agent_id][specs.container_name(kernel_id, attempt)] = (status, address)
    return (agent_id for agent_id, states in found.items() if _differ(states, known[agent_id]))


def list_containers(agents: Sequence[Agent]) -> dict[int, dict[str, ContainerState]]:
    """Containers of ours, on each of these machines that answers. One request."""
    runtimes: dict[int, SimulatedRuntime] = {}
    for agent in agents:
        runtime = runtime_of(agent)
        if isinstance(runtime, SimulatedRuntime) and runtime.answers:
            runtimes[agent.pk] = runtime
    shelves = [runtime.shelf for runtime in runtimes.values()]
    return {
        agent_id: {state.name: state for state in runtime.states_in(containers, OURS)}
        for (agent_id, runtime), containers in zip(runtimes.items(), read_containers(shelves), strict=True)
    }


def _differ(found: Mapping[str, ContainerState], known: _Known) -> bool:
    if found.keys() - known.keys():
        return True
    for name, (status, address) in known.items():
        state = found.get(name)
        if status == Status.RUNNING and (
            state is None
            or state.status is not ContainerStatus.RUNNING
            or next(iter(state.addresses.values()), None) != address
        ):
            return True
    return False


def launch_sessions(session_ids: Collection[UUID]) -> list[UUID]:
    """Bring those of these to RUNNING whose machines answer together, all in a few statements; the others, which somebody is to
    launch one by one: they are elsewhere, were begun before, or have folders or files of their owner to bring.

    Dies anywhere: names are deterministic, each stage is a statement, and what it leaves is launched again one by one."""
    up: set[UUID] = set()
    with _held(session_ids, Status.SCHEDULED) as held:
        if launches := read_launches(held):
            moved = lifecycle.transition_along(launches, frm=Status.SCHEDULED, steps=_TO_START, actor=SYSTEM)
            started = _start([each for session_id in moved for each in launches[session_id]])
            # Without those whose rows somebody else holds: they are launched one by one.
            up.update(
                lifecycle.transition_many(
                    started, frm=Status.STARTING, to=Status.RUNNING, reason=Reason.CONTAINERS_UP, actor=SYSTEM
                )
            )
        left = _left([pk for pk in session_ids if pk not in up], LAUNCHING)
    end_if_asked(held)
    return left


def end_sessions(session_ids: Collection[UUID]) -> list[UUID]:
    """Remove what those of these that are TERMINATING have on machines that answer together, and finish them; the others, which
    somebody is to end one by one."""
    with _held(session_ids, Status.TERMINATING) as held:
        ended = set(lifecycle.finish_many(_remove(read_placed(held)), actor=SYSTEM))
        return _left([pk for pk in session_ids if pk not in ended], (Status.TERMINATING,))


def _left(session_ids: Collection[UUID], statuses: Collection[Status]) -> list[UUID]:
    """Those of these that are in one of these statuses still: a message that comes twice, or late, makes no work."""
    if not session_ids:
        return []
    left = ComputeSession.objects.filter(pk__in=session_ids, status__in=statuses).order_by()
    still = set(left.values_list("pk", flat=True))
    return [session_id for session_id in session_ids if session_id in still]


def end_exited(listed: Found) -> None:
    """Sessions whose containers have ended by themselves begin to end, all with the same end at once."""
    ends: dict[tuple[Reason, int], list[UUID]] = defaultdict(list)
    found = {name: state for states in listed.values() for name, state in states.items() if _is_over(state)}
    if not found:
        return
    ids = [UUID(state.labels[specs.KERNEL_LABEL]) for state in found.values()]
    for kernel_id, attempt, session_id, has_command in running_alone(ids):
        state = found.get(specs.container_name(kernel_id, attempt))
        if state is None or state.exit_code is None or state.was_oom_killed:
            continue  # looked at alone
        reason = Reason.CONTAINER_EXITED
        if has_command:
            reason = Reason.COMMAND_FAILED if state.exit_code else Reason.COMMAND_FINISHED
        ends[reason, state.exit_code].append(session_id)
    for (reason, code), session_ids in ends.items():
        for first in range(0, len(session_ids), AT_ONCE):
            _begin_ends(session_ids[first : first + AT_ONCE], reason, code)


@transaction.atomic
def _begin_ends(session_ids: Sequence[UUID], reason: Reason, code: int) -> None:
    moved = lifecycle.transition_many(
        session_ids, frm=Status.RUNNING, to=Status.TERMINATING, reason=reason, actor=SYSTEM, exit_code=code
    )
    if moved:
        with prepared_cursor() as cursor:
            cursor.execute(_NOTE_CODES, {"code": code, "sessions": moved})
        enqueue_on_commit(TaskName.TERMINATE_SESSIONS, session_ids=[str(pk) for pk in moved])


@contextmanager
def _held(session_ids: Collection[UUID], status: Status) -> Iterator[list[UUID]]:
    """Those of these in this status whose machines answer together, and on which nobody else works meanwhile. Who did may have moved
    them on: what is read under the lock counts."""
    locks = {work_lock(pk): pk for pk in answering_together(session_ids, status)}
    with try_exclusive_each(locks) as held:
        yield [locks[each] for each in held]


def _start(launches: Sequence[Launch]) -> set[UUID]:
    """The sessions of these whose containers all run now, with their rows saying where these are."""
    starts = [
        Start(
            each.runtime,  # type: ignore[arg-type]
            specs.build_network_spec(each.plan),
            specs.home_volume_name(each.plan.kernel_id, each.plan.attempt),
            specs.build_container_spec(each.plan),
        )
        for each in launches
    ]
    try:
        states = start_many(starts)
    except RuntimeUnavailable:
        return set()
    plans = {start.spec.name: each.plan for start, each in zip(starts, launches, strict=True)}
    with prepared_cursor() as cursor:
        told = {
            "ids": [plans[name].kernel_id for name in states],
            "containers": [state.container_id for state in states.values()],
            "addresses": [next(iter(state.addresses.values())) for state in states.values()],
        }
        cursor.execute(_NOTE_CONTAINERS, told)
    down = {plan.session_id for name, plan in plans.items() if name not in states}
    return {plan.session_id for plan in plans.values()} - down


def _remove(placed: Sequence[Placed]) -> set[UUID]:
    """Those of their sessions of which nothing is on a machine any more; their logs are kept."""
    removals = {
        each: Removal(
            each.runtime,  # type: ignore[arg-type]
            specs.network_name(each.session_id),
            specs.home_volume_name(each.kernel_id, each.attempt),
            specs.container_name(each.kernel_id, each.attempt),
        )
        for each in placed
    }
    try:
        outputs = read_outputs(list(removals.values()))
        _keep_logs(removals, outputs)  # before their containers go
        remove_many([removal for removal in removals.values() if removal.container in outputs])
    except RuntimeUnavailable:
        return set()
    left = {each.session_id for each, removal in removals.items() if removal.container not in outputs}
    return {each.session_id for each in removals} - left


def _keep_logs(removals: Mapping[Placed, Removal], outputs: Mapping[str, bytes | None]) -> None:
    """Of the last attempt, if only that it wrote nothing."""
    written = {each: outputs.get(removal.container) for each, removal in removals.items()}
    KernelLog.objects.bulk_create(
        (
            KernelLog(
                kernel_id=each.kernel_id,
                content_gzip=gzip.compress(kept, 1),
                index_gzip=gzip.compress(log_of(kept).index(), 1),
                size_bytes=len(kept),
                is_cut=len(kept) < len(output),
                attempt=each.attempt,
            )
            for each, output in written.items()
            if output or (output is not None and each.attempt > 1)
            for kept in [output[-STORED_BYTES:]]
        ),
        update_conflicts=True,
        unique_fields=["kernel"],
        update_fields=["content_gzip", "index_gzip", "size_bytes", "is_cut", "attempt"],
    )


def _is_over(state: ContainerState) -> bool:
    return state.status is ContainerStatus.EXITED
