"""Engines that are asked together: simulated ones, which keep what they have in Redis. Thousands of them cost a round as
much as one engine of a machine; those that differ from the rows are then looked at one by one, as all others are."""

import gzip
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from agents.models import Agent
from agents.runtime.addresses import SHARED
from agents.runtime.base import ContainerState, ContainerStatus, RuntimeUnavailable
from agents.runtime.simulated import SimulatedRuntime
from agents.runtime.simulated_many import Removal, Start, read_outputs, remove_many, start_many
from agents.runtime.simulated_shelf import read_containers
from agents.selectors import runtime_of
from common.actors import SYSTEM
from common.dispatch import TaskName, enqueue_on_commit
from common.locks import try_exclusive_each
from sessions_app import lifecycle, specs
from sessions_app.launcher import KEPT_LOG_BYTES, plan_with, work_lock
from sessions_app.models import (
    ComputeSession,
    ComputeSessionQuerySet,
    Dotfile,
    Kernel,
    KernelLog,
    SessionMount,
    StartupScript,
)
from sessions_app.states import LAUNCHING, Reason, Status

AT_ONCE = 1000
OURS = {specs.INSTALLATION_LABEL: settings.BERTH_INSTALLATION}
_Known = Mapping[str, tuple[str, str | None]]
"""By container name: status of the session, address."""
Found = Mapping[int, Mapping[str, ContainerState]]
"""By machine: containers by name."""
# Of these engines every image is there.
_TO_START = ((Status.PREPARING, Reason.PREPARING), (Status.STARTING, Reason.IMAGE_READY))
_STARTED_WITH = (
    "name", "type", "owner", "project", "image", "image_reference", "command", "requested_slots", "shm_bytes", "environment",
    "personal_files", "array", "array_index",
)  # fmt: skip


def differing(found: Found) -> Iterator[int]:
    """Ids of those of these machines whose containers are not as the rows say. One query for all."""
    known: dict[int, dict[str, tuple[str, str | None]]] = defaultdict(dict)
    # Read after the lists: a container that was made in between is in neither and waits for the next round.
    live = Kernel.objects.filter(agent_id__in=found, session__ended_at=None).order_by()
    rows = live.values_list("agent_id", "pk", "attempt", "session__status", "address")
    for agent_id, kernel_id, attempt, status, address in rows:
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
    with _held(session_ids, Status.SCHEDULED) as rows:
        held = _with_all_to_start(rows)
        rest = [session_id for session_id in session_ids if session_id not in held]
        keepers = _who_keeps_files({session.owner_id for session in held.values()})
        mounting = _which_mount_folders(held)
        sessions = {
            pk: session for pk, session in held.items() if pk not in mounting and _is_plain(session, keepers)
        }
        if not sessions:
            return _left(session_ids, LAUNCHING)
        rest += held.keys() - sessions.keys()
        moved = lifecycle.transition_along(sessions, frm=Status.SCHEDULED, steps=_TO_START, actor=SYSTEM)
        up = set(_start([sessions[pk] for pk in moved]))
        lifecycle.transition_many(
            up, frm=Status.STARTING, to=Status.RUNNING, reason=Reason.CONTAINERS_UP, actor=SYSTEM
        )
        return _left([*rest, *(pk for pk in sessions if pk not in up)], LAUNCHING)


def end_sessions(session_ids: Collection[UUID]) -> list[UUID]:
    """Remove what those of these that are TERMINATING have on machines that answer together, and finish them; the others, which
    somebody is to end one by one."""
    with _held(session_ids, Status.TERMINATING) as rows:
        gone = _remove(Kernel.objects.filter(session__in=rows.values("pk")).prefetch_related("agent"))
        ended = set(lifecycle.finish_many(gone, actor=SYSTEM))
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
    codes: dict[UUID, int] = {}
    found = {name: state for states in listed.values() for name, state in states.items() if _is_over(state)}
    if not found:
        return
    ids = [UUID(state.labels[specs.KERNEL_LABEL]) for state in found.values()]
    running = Kernel.objects.filter(pk__in=ids, session__status=Status.RUNNING, session__kernel_count=1)
    for kernel_id, attempt, session_id, command in running.values_list(
        "pk", "attempt", "session_id", "session__command"
    ):
        state = found.get(specs.container_name(kernel_id, attempt))
        if state is None or state.exit_code is None or state.was_oom_killed:
            continue  # looked at alone
        reason = Reason.CONTAINER_EXITED
        if command:
            reason = Reason.COMMAND_FAILED if state.exit_code else Reason.COMMAND_FINISHED
        ends[reason, state.exit_code].append(session_id)
        codes[kernel_id] = state.exit_code
    for (reason, code), session_ids in ends.items():
        for first in range(0, len(session_ids), AT_ONCE):
            _begin_ends(session_ids[first : first + AT_ONCE], reason, code)


@transaction.atomic
def _begin_ends(session_ids: Sequence[UUID], reason: Reason, code: int) -> None:
    moved = lifecycle.transition_many(
        session_ids, frm=Status.RUNNING, to=Status.TERMINATING, reason=reason, actor=SYSTEM, exit_code=code
    )
    Kernel.objects.filter(session__in=moved).update(exit_code=code)
    if moved:
        enqueue_on_commit(TaskName.TERMINATE_SESSIONS, session_ids=[str(pk) for pk in moved])


@contextmanager
def _held(session_ids: Collection[UUID], status: Status) -> Iterator[ComputeSessionQuerySet]:
    """Those of these in this status whose machines answer together, and on which nobody else works meanwhile."""
    rows = ComputeSession.objects.filter(pk__in=session_ids, status=status)
    elsewhere = Kernel.objects.filter(session__in=session_ids).exclude(agent__address__contains=SHARED)
    locks = {work_lock(pk): pk for pk in rows.exclude(kernels__in=elsewhere).values_list("pk", flat=True)}
    with try_exclusive_each(locks) as held:
        # Read under the lock: who had it before may have moved them on.
        yield rows.filter(pk__in=[locks[each] for each in held])


def _with_all_to_start(sessions: ComputeSessionQuerySet) -> dict[UUID, ComputeSession]:
    """With what their containers are made of; sessions of one project, image or machine share its row. 6 queries."""
    shared = sessions.only(*_STARTED_WITH).prefetch_related("project", "image", "array", "kernels__agent")
    return {session.pk: session for session in shared}


def _is_plain(session: ComputeSession, keepers: set[int]) -> bool:
    """No files have to be brought to it, and no app is started in it."""
    return session.type == "batch" and not (session.personal_files and session.owner_id in keepers)


def _which_mount_folders(session_ids: Collection[UUID]) -> set[UUID]:
    mounts = SessionMount.objects.filter(session__in=session_ids).order_by()
    return set(mounts.values_list("session_id", flat=True))


def _who_keeps_files(owner_ids: set[int]) -> set[int]:
    kept = [model.objects.filter(user__in=owner_ids) for model in (Dotfile, StartupScript)]
    return {user_id for rows in kept for user_id in rows.values_list("user_id", flat=True)}


def _start(sessions: Sequence[ComputeSession]) -> list[UUID]:
    """Those of these whose containers all run now, with their rows saying where these are."""
    plans = {
        kernel: plan_with(session, kernel, (), has_setup=False, mooring_id=None)
        for session in sessions
        for kernel in session.kernels.all()
    }
    starts = [
        Start(
            runtime_of(kernel.placed_agent),  # type: ignore[arg-type]
            specs.build_network_spec(plan),
            specs.home_volume_name(kernel.pk, kernel.attempt),
            specs.build_container_spec(plan),
        )
        for kernel, plan in plans.items()
    ]
    try:
        states = start_many(starts)
    except RuntimeUnavailable:
        return []
    up = {kernel: states[kernel.container_name] for kernel in plans if kernel.container_name in states}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE {Kernel._meta.db_table} AS kernel SET container_id = up.container_id, address = up.address
            FROM unnest(%s::uuid[], %s::text[], %s::inet[]) AS up (id, container_id, address) WHERE kernel.id = up.id
            """,
            [
                [kernel.pk for kernel in up],
                [state.container_id for state in up.values()],
                [next(iter(state.addresses.values())) for state in up.values()],
            ],
        )
    return [session.pk for session in sessions if all(kernel in up for kernel in session.kernels.all())]


def _remove(kernels: Iterable[Kernel]) -> set[UUID]:
    """Those of their sessions of which nothing is on a machine any more; their logs are kept."""
    removals = {
        kernel: Removal(
            runtime_of(kernel.placed_agent),  # type: ignore[arg-type]
            specs.network_name(kernel.session_id),
            specs.home_volume_name(kernel.pk, kernel.attempt),
            kernel.container_name,
        )
        for kernel in kernels
    }
    try:
        outputs = read_outputs(list(removals.values()))
        _keep_logs(list(removals), outputs)  # before their containers go
        remove_many([removal for removal in removals.values() if removal.container in outputs])
    except RuntimeUnavailable:
        return set()
    left = {kernel.session_id for kernel in removals if kernel.container_name not in outputs}
    return {kernel.session_id for kernel in removals} - left


def _keep_logs(kernels: Sequence[Kernel], outputs: Mapping[str, bytes | None]) -> None:
    """Of the last attempt, if only that it wrote nothing."""
    written = {kernel: outputs.get(kernel.container_name) for kernel in kernels}
    KernelLog.objects.bulk_create(
        (
            KernelLog(kernel=kernel, content_gzip=gzip.compress(kept, 1), size_bytes=len(kept))
            for kernel, output in written.items()
            if output or (output is not None and kernel.attempt > 1)
            for kept in [output[-KEPT_LOG_BYTES:]]
        ),
        update_conflicts=True,
        unique_fields=["kernel"],
        update_fields=["content_gzip", "size_bytes"],
    )


def _is_over(state: ContainerState) -> bool:
    return state.status is ContainerStatus.EXITED
