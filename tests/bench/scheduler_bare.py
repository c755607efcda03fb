"""Lower bound for the cost of a plan: write the rows of `commit_plan` with bulk statements only.

One statement per table or fewer, without locks, checks and events. Devices are chosen beforehand.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from accounts.models import LimitUse
from agents.models import AgentDevice, AgentSlot
from common.values.resources import MILLI
from scheduler.commit.device_tables import assign_kernel_devices, read_device_tables
from scheduler.engine import KernelPlacement, Plan
from scheduler.engine.accelerators import DeviceAssignment
from sessions_app.models import ComputeSession, Kernel, KernelAllocation, SessionTransition

PLACED = '{"text": "A machine with room was found."}'
SESSIONS, ALLOCATIONS = ComputeSession._meta.db_table, KernelAllocation._meta.db_table
HISTORY = SessionTransition._meta.db_table


@contextmanager
def without_triggers() -> Iterator[None]:
    """Disable user triggers; keys and checks stay in force."""
    with connection.cursor() as cursor:
        for table in (SESSIONS, ALLOCATIONS):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        for table in (SESSIONS, ALLOCATIONS):
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


class Bare:
    """Bulk commits of plans for one group. If triggers are on, they count allocations."""

    def __init__(self, group_id: int) -> None:
        waiting = ComputeSession.objects.filter(resource_group=group_id)
        owners = waiting.values_list("pk", "domain_id", "project_id", "owner_id")
        self._scopes = {
            session_id: tuple(zip(("domain", "project", "user"), ids, strict=True))
            for session_id, *ids in owners
        }
        self._dealt: Sequence[DeviceAssignment] = ()

    def deal(self, decided: Plan) -> None:
        """Choose the devices of the commit that follows."""
        kernels = _kernels_of(decided)
        self._dealt = assign_kernel_devices(kernels, read_device_tables(kernels))

    def commit(self, decided: Plan) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            _write(cursor, decided, self._dealt)

    def commit_and_count(self, decided: Plan) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            _write(cursor, decided, self._dealt)
            self._count(cursor, decided)
            self._count_devices(cursor, decided)

    def _count_devices(self, cursor: CursorWrapper, decided: Plan) -> None:
        shares = Counter[int]()
        for kernel, of_kernel in zip(_kernels_of(decided), self._dealt, strict=True):
            for name, device_ids in of_kernel.items():
                shares.update(dict.fromkeys(device_ids, min(kernel.slots[name], MILLI)))
        cursor.execute(
            f"""
            UPDATE {AgentDevice._meta.db_table} AS device SET occupied = device.occupied + share.amount
            FROM unnest(%s::bigint[], %s::int[]) AS share (id, amount) WHERE device.id = share.id
            """,
            [list(shares), list(shares.values())],
        )

    def _count(self, cursor: CursorWrapper, decided: Plan) -> None:
        occupied = Counter[tuple[int, str]]()
        use = Counter[tuple[str, int, str]]()
        for placement in decided.placements:
            scopes = self._scopes[placement.session_id]
            use.update({(*scope, "pending_sessions"): -1 for scope in scopes})
            for kernel in placement.kernels:
                for name, amount in kernel.slots.items():
                    occupied[kernel.agent_id, name] += amount
                    for scope in scopes:
                        use[*scope, f"slots.{name}"] += amount
                        use[*scope, f"pending_slots.{name}"] -= amount
        cursor.execute(
            f"""
            UPDATE {AgentSlot._meta.db_table} AS slot SET occupied = slot.occupied + placed.amount
            FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) AS placed (agent_id, slot_name, amount)
            WHERE slot.agent_id = placed.agent_id AND slot.slot_name = placed.slot_name
            """,
            [*map(list, zip(*occupied, strict=True)), list(occupied.values())],
        )
        cursor.execute(
            f"""
            INSERT INTO {LimitUse._meta.db_table} AS use (level, scope_id, resource, used)
            SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[])
            ON CONFLICT (level, scope_id, resource) DO UPDATE SET used = use.used + EXCLUDED.used
            """,
            [*map(list, zip(*use, strict=True)), list(use.values())],
        )


def _kernels_of(decided: Plan) -> list[KernelPlacement]:
    return [kernel for placement in decided.placements for kernel in placement.kernels]


def _write(cursor: CursorWrapper, decided: Plan, dealt: Sequence[DeviceAssignment]) -> None:
    _move(cursor, [placement.session_id for placement in decided.placements])
    _allocate(cursor, _kernels_of(decided), dealt)


def _move(cursor: CursorWrapper, sessions: Sequence[UUID]) -> None:
    cursor.execute(
        f"""
        UPDATE {SESSIONS} AS session
        SET status = 'SCHEDULED', status_reason = 'placed', status_message = %s, status_changed_at = now(),
            deadline_at = now() + interval '2 minutes', queue_position = NULL
        FROM unnest(%s::uuid[]) AS placed (id) WHERE session.id = placed.id
        """,
        [PLACED, sessions],
    )
    cursor.execute(
        f"""
        INSERT INTO {HISTORY}
            (session_id, from_status, to_status, reason, message, actor_label, happened_at)
        SELECT id, 'PENDING', 'SCHEDULED', 'placed', %s, 'system', now() FROM unnest(%s::uuid[]) AS placed (id)
        """,
        [PLACED, sessions],
    )


def _allocate(
    cursor: CursorWrapper, kernels: Sequence[KernelPlacement], dealt: Sequence[DeviceAssignment]
) -> None:
    cursor.execute(
        f"""
        UPDATE {Kernel._meta.db_table} AS kernel SET agent_id = placed.agent_id
        FROM unnest(%s::uuid[], %s::bigint[]) AS placed (id, agent_id) WHERE kernel.id = placed.id
        """,
        [[kernel.kernel_id for kernel in kernels], [kernel.agent_id for kernel in kernels]],
    )
    held = [
        (
            kernel.kernel_id,
            kernel.agent_id,
            name,
            amount,
            "{" + ",".join(map(str, of_kernel.get(name, ()))) + "}",
        )
        for kernel, of_kernel in zip(kernels, dealt, strict=True)
        for name, amount in kernel.slots.items()
    ]
    cursor.execute(
        f"""
        INSERT INTO {ALLOCATIONS} (kernel_id, agent_id, slot_name, amount, devices)
        SELECT kernel_id, agent_id, slot_name, amount, devices::bigint[]
        FROM unnest(%s::uuid[], %s::bigint[], %s::text[], %s::bigint[], %s::text[])
            AS held (kernel_id, agent_id, slot_name, amount, devices)
        """,
        [list(column) for column in zip(*held, strict=True)],
    )
