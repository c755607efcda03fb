"""What `together` reads of many sessions at once, with a statement each: values alone, for a row of a model for each session and
container takes longer than all else that is done with it."""

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from accounts.models import Membership
from agents.models import Agent
from agents.runtime.addresses import SHARED
from agents.runtime.base import ContainerRuntime
from agents.runtime.registry import runtime_for
from common.prepared import prepared_cursor
from common.slots import CPU, ResourceSlots
from sessions_app import specs
from sessions_app.launcher import settings_of_plans
from sessions_app.models import (
    ComputeSession,
    Dotfile,
    Kernel,
    KernelAllocation,
    SessionArray,
    SessionMount,
    SessionType,
    StartupScript,
)
from sessions_app.states import Status

_SESSION, _KERNEL, _AGENT = (model._meta.db_table for model in (ComputeSession, Kernel, Agent))
_ANSWER_TOGETHER = f"""
    SELECT id FROM {_SESSION} AS session WHERE id = ANY(%(ids)s) AND status = %(status)s AND NOT EXISTS (
        SELECT FROM {_KERNEL} AS kernel LEFT JOIN {_AGENT} AS agent ON agent.id = kernel.agent_id
        WHERE kernel.session_id = session.id AND coalesce(position('{SHARED}' IN agent.address), 0) = 0)
"""
# In the order of `_ToLaunch`. No files are brought to these, no app is started in them, and none is refused because its owner left.
_TO_LAUNCH = f"""
    SELECT session.id, session.name, project.name, session.image_reference, image.bears_readonly_root, session.command,
        session.requested_slots, session.shm_bytes, session.environment, whole.id, session.array_index, whole.count,
        kernel.id, kernel.role, kernel.index, kernel.attempt, coalesce(held.cpuset, ''), agent.address
    FROM {_SESSION} AS session
    JOIN {_KERNEL} AS kernel ON kernel.session_id = session.id
    JOIN {_AGENT} AS agent ON agent.id = kernel.agent_id
    LEFT JOIN {KernelAllocation._meta.db_table} AS held ON held.kernel_id = kernel.id AND held.slot_name = '{CPU}'
    JOIN {ComputeSession.project.field.related_model._meta.db_table} AS project ON project.id = session.project_id
    JOIN {ComputeSession.image.field.related_model._meta.db_table} AS image ON image.id = session.image_id
    LEFT JOIN {SessionArray._meta.db_table} AS whole ON whole.id = session.array_id
    WHERE session.id = ANY(%(ids)s) AND session.status = '{Status.SCHEDULED.value}' AND session.type = '{SessionType.BATCH.value}'
        AND EXISTS (SELECT FROM {Membership._meta.db_table} WHERE user_id = session.owner_id AND project_id = session.project_id)
        AND NOT EXISTS (SELECT FROM {SessionMount._meta.db_table} WHERE session_id = session.id)
        AND NOT (session.personal_files AND (
            EXISTS (SELECT FROM {Dotfile._meta.db_table} WHERE user_id = session.owner_id)
            OR EXISTS (SELECT FROM {StartupScript._meta.db_table} WHERE user_id = session.owner_id)))
    ORDER BY session.id, kernel.role, kernel.index
"""
_TO_END = f"""
    SELECT kernel.session_id, kernel.id, kernel.attempt, agent.address FROM {_SESSION} AS session
    JOIN {_KERNEL} AS kernel ON kernel.session_id = session.id
    JOIN {_AGENT} AS agent ON agent.id = kernel.agent_id
    WHERE session.id = ANY(%(ids)s) AND session.status = '{Status.TERMINATING.value}'
"""
_RUNNING_ALONE = f"""
    SELECT kernel.id, kernel.attempt, session.id, session.command <> '' FROM {_KERNEL} AS kernel
    JOIN {_SESSION} AS session ON session.id = kernel.session_id
    WHERE kernel.id = ANY(%(ids)s) AND session.status = '{Status.RUNNING.value}' AND session.kernel_count = 1
"""
_LIVE = f"""
    SELECT kernel.agent_id, kernel.id, kernel.attempt, session.status, kernel.address FROM {_KERNEL} AS kernel
    JOIN {_SESSION} AS session ON session.id = kernel.session_id
    WHERE kernel.agent_id = ANY(%(ids)s::bigint[]) AND session.ended_at IS NULL
"""


class _ToLaunch(NamedTuple):
    session_id: UUID
    session_name: str
    project: str
    image: str
    has_readonly_root: bool
    command: str
    slots: str
    shm_bytes: int
    environment: str
    array_id: UUID | None
    array_index: int
    array_count: int
    kernel_id: UUID
    role: str
    number: int
    attempt: int
    cpuset: str
    address: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A container that is to be started, and where."""

    runtime: ContainerRuntime
    plan: specs.KernelPlan


class Placed(NamedTuple):
    """A container that may be on its machine."""

    session_id: UUID
    kernel_id: UUID
    attempt: int
    address: str

    @property
    def runtime(self) -> ContainerRuntime:
        return runtime_for(self.address)


def answering_together(session_ids: Collection[UUID], status: Status) -> list[UUID]:
    """Those of these in this status all of whose machines are asked together."""
    rows = _read(_ANSWER_TOGETHER, session_ids, status=status.value)
    return [session_id for (session_id,) in rows]


def read_launches(session_ids: Collection[UUID]) -> dict[UUID, list[Launch]]:
    """By session, the containers of those of these that wait for their first start and are like all others."""
    launches: dict[UUID, list[Launch]] = defaultdict(list)
    read, everywhere = cache(json.loads), settings_of_plans()
    for row in map(_ToLaunch._make, _read(_TO_LAUNCH, session_ids)):
        plan = specs.KernelPlan(
            session_id=row.session_id,
            kernel_id=row.kernel_id,
            attempt=row.attempt,
            session_name=row.session_name,
            project=row.project,
            kernel_name=f"{row.role}{row.number}",
            image=row.image,
            command=row.command,
            slots=ResourceSlots(read(row.slots)),
            cpuset=row.cpuset,
            shm_bytes=row.shm_bytes,
            environment=read(row.environment),
            has_readonly_root=row.has_readonly_root,
            element=_element_of(row),
            **everywhere,
        )
        launches[row.session_id].append(Launch(runtime_for(row.address), plan))
    return launches


def _element_of(row: _ToLaunch) -> specs.ArrayElement | None:
    return specs.ArrayElement(row.array_id, row.array_index, row.array_count) if row.array_id else None


def read_placed(session_ids: Collection[UUID]) -> list[Placed]:
    """The containers of those of these that are TERMINATING."""
    return [Placed(*row) for row in _read(_TO_END, session_ids)]


def running_alone(kernel_ids: Collection[UUID]) -> list[tuple[UUID, int, UUID, bool]]:
    """Of those of these that are the only container of a RUNNING session: id, attempt, session, whether it has a command."""
    return _read(_RUNNING_ALONE, kernel_ids)


def live_on(agent_ids: Collection[int]) -> list[tuple[int, UUID, int, str, str | None]]:
    """Of the containers of live sessions on these machines: machine, id, attempt, status of the session, address."""
    return _read(_LIVE, agent_ids)


def _read(statement: str, ids: Collection[Any], **values: str) -> list[Any]:
    """No query for no ids."""
    if not ids:
        return []
    with prepared_cursor() as cursor:
        cursor.execute(statement, {"ids": list(ids), **values})
        return list(cursor.fetchall())
