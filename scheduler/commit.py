"""Turns a plan into rows: all of it in one transaction, or nothing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import F
from psycopg.types.json import Jsonb

from agents.models import Agent, AgentSlot, ResourceGroup
from agents.states import AgentState
from common.actors import SYSTEM
from common.dispatch import TaskName, enqueue_on_commit
from common.slots import CPU, ResourceSlots
from scheduler.engine import Deferral, KernelPlacement, Placement, Plan
from scheduler.reasons import sentence_for
from sessions_app import lifecycle
from sessions_app.cpusets import CoreUse, choose_cores
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from sessions_app.states import Reason, Status

LOCK_CLASS = (
    0x7E11  # first half of the advisory lock's key, of the scheduler alone; the second is the group's id
)


class GroupBusy(Exception):
    """Another worker commits a plan for this group at this moment."""


class StalePlan(Exception):
    """The group changed after the snapshot; nothing was written, and a new snapshot is needed."""


def commit_plan(plan: Plan) -> list[UUID]:
    """Write down who runs where and why the others wait; ids of the sessions that are SCHEDULED now.

    Sessions that were cancelled since the snapshot are left out. Each placed session has its allocation rows,
    its kernels their agents, and LAUNCH_SESSION is sent when this commits. Rows are locked in the one global
    order: group, sessions by id, agents by id, their slots, what limits count. Raises GroupBusy, StalePlan; then nothing was
    written.
    """
    try:
        with transaction.atomic():
            _lock_group(plan)
            _write_down(plan)
            placed = _place(plan.placements)
    except IntegrityError as error:
        # The database's own checks: of what an agent holds, unreachable while everybody takes the locks; of what
        # policies allow, where the tick of another group was faster.
        raise StalePlan(f"The database refused the plan of {plan.group_name}: {error}") from error
    return placed


def _lock_group(plan: Plan) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCK_CLASS, plan.group_id])
        [is_locked] = cursor.fetchone()
    if not is_locked:
        raise GroupBusy(f"Another worker plans {plan.group_name}.")
    group = ResourceGroup.objects.filter(pk=plan.group_id, epoch=plan.epoch)
    if not group.update(epoch=F("epoch") + 1):
        raise StalePlan(f"A newer plan than epoch {plan.epoch} of {plan.group_name} was committed.")


def _place(placements: Sequence[Placement]) -> list[UUID]:
    if not placements:
        return []
    wanted = [placement.session_id for placement in placements]
    pending = ComputeSession.objects.filter(pk__in=wanted, status=Status.PENDING.value).order_by("pk")
    locked = set(pending.select_for_update(skip_locked=True).values_list("pk", flat=True))
    kernels = [
        each for placement in placements if placement.session_id in locked for each in placement.kernels
    ]

    cores = _lock_agents(kernels)
    _set_agents(kernels, _cpusets(kernels, cores))
    _allocate(kernels)
    moved = lifecycle.transition_many(
        locked, frm=Status.PENDING, to=Status.SCHEDULED, reason=Reason.PLACED, actor=SYSTEM
    )
    for session in moved:
        enqueue_on_commit(TaskName.LAUNCH_SESSION, session_id=str(session.pk))
    return [session.pk for session in moved]


def _lock_agents(kernels: Sequence[KernelPlacement]) -> dict[int, int]:
    """Hold the agents of these kernels until commit; how many cores each has, 0 where nobody counted. Raises StalePlan if
    one takes none or has not enough."""
    needed: dict[int, ResourceSlots] = {}
    for kernel in kernels:
        needed[kernel.agent_id] = needed.get(kernel.agent_id, ResourceSlots()) + kernel.slots

    connected = Agent.objects.filter(pk__in=needed).in_state(AgentState.CONNECTED).order_by("pk")
    locked = dict(connected.select_for_update(no_key=True).values_list("pk", "data__cores"))
    slots = AgentSlot.objects.filter(agent_id__in=locked).order_by("pk")
    free: dict[int, dict[str, int]] = {}
    for slot in slots.select_for_update(no_key=True):
        free.setdefault(slot.agent_id, {})[slot.slot_name] = slot.capacity - slot.occupied

    for agent_id, asked in needed.items():
        if agent_id not in locked or not asked.fits_in(ResourceSlots(free.get(agent_id))):
            raise StalePlan(f"Agent {agent_id} has no room for {asked} any more.")
    return {agent_id: count or 0 for agent_id, count in locked.items()}


def _cpusets(kernels: Sequence[KernelPlacement], cores: Mapping[int, int]) -> list[str]:
    """The cores of each kernel, next to what the locked agents run already. One query."""
    used: dict[int, list[CoreUse]] = defaultdict(list)
    present = KernelAllocation.objects.filter(agent_id__in=cores, slot_name=CPU)
    for agent_id, cpuset, amount in present.values_list("agent_id", "kernel__cpuset", "amount"):
        used[agent_id].append(CoreUse(amount, cpuset))
    chosen = []
    for kernel in kernels:
        others = used[kernel.agent_id]
        cpuset = choose_cores(kernel.slots[CPU], cores.get(kernel.agent_id, 0), others)
        others.append(CoreUse(kernel.slots[CPU], cpuset))
        chosen.append(cpuset)
    return chosen


def _set_agents(kernels: Sequence[KernelPlacement], cpusets: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE {Kernel._meta.db_table} AS kernel SET agent_id = placed.agent_id, cpuset = placed.cpuset
            FROM unnest(%s::uuid[], %s::bigint[], %s::text[]) AS placed (kernel_id, agent_id, cpuset)
            WHERE kernel.id = placed.kernel_id
            """,
            [
                [kernel.kernel_id for kernel in kernels],
                [kernel.agent_id for kernel in kernels],
                list(cpusets),
            ],
        )


def _allocate(kernels: Sequence[KernelPlacement]) -> None:
    KernelAllocation.objects.bulk_create(
        KernelAllocation(kernel_id=kernel.kernel_id, agent_id=kernel.agent_id, slot_name=name, amount=amount)
        for kernel in kernels
        for name, amount in kernel.slots.items()
    )


def _write_down(plan: Plan) -> None:
    """Position, reason code and sentence of each session that waits on; rows that say so already stay as they
    are."""
    changed = _update_waiting(plan.deferrals, plan.group_name)
    for session in ComputeSession.objects.filter(pk__in=changed):
        lifecycle.push_session_change(session)


def _update_waiting(deferrals: Sequence[Deferral], group_name: str) -> list[UUID]:
    if not deferrals:
        return []
    sentences: dict[int, Jsonb] = {}  # those who wait for the same share one explanation
    for _, _, why in deferrals:
        if id(why) not in sentences:
            sentences[id(why)] = Jsonb(sentence_for(why, group_name).to_json())
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE {ComputeSession._meta.db_table} AS session
            SET queue_position = waits.position, status_reason = waits.reason, status_message = waits.message
            FROM (
                SELECT waits.* FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::jsonb[])
                    AS waits (id, position, reason, message)
                JOIN {ComputeSession._meta.db_table} AS present ON present.id = waits.id
                WHERE present.status = 'PENDING'
                  AND (present.queue_position, present.status_reason, present.status_message)
                      IS DISTINCT FROM (waits.position, waits.reason, waits.message)
                ORDER BY present.id FOR NO KEY UPDATE OF present SKIP LOCKED
            ) AS waits
            WHERE session.id = waits.id AND session.status = 'PENDING'
            RETURNING session.id
            """,
            [
                [deferral.session_id for deferral in deferrals],
                [deferral.position for deferral in deferrals],
                [deferral.reason.value for deferral in deferrals],
                [sentences[id(deferral.why)] for deferral in deferrals],
            ],
        )
        return [session_id for (session_id,) in cursor.fetchall()]
