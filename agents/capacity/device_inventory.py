"""Reads of the accelerators of many machines: by model, and one by one."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from django.db import connection

from agents.core.states import AgentState
from agents.models import Agent, AgentDevice, ResourceGroup, Withheld

_AGENT, _DEVICE, _GROUP = (model._meta.db_table for model in (Agent, AgentDevice, ResourceGroup))
_PARAMETERS: dict[str, Any] = {
    "retired": AgentState.RETIRED.value,
    "connected": AgentState.CONNECTED.value,
    "split": Withheld.PARTITIONED.value,
    "ill": [Withheld.QUARANTINE.value, Withheld.ADMINISTRATOR.value],
}
# Devices are counted before their machines are joined: that takes a fifth of the time.
_MODELS = f"""
    WITH device AS (
        SELECT agent_id, slot_name, model, profile, max(vendor) AS vendor, max(mem_bytes) AS mem_bytes,
            count(*) FILTER (WHERE is_present) AS there,
            count(*) FILTER (WHERE is_usable AND occupied = 0) AS free,
            max(1000 - occupied) FILTER (WHERE is_usable) AS part,
            count(*) FILTER (WHERE is_present AND withheld = ANY(%(ill)s)) AS ill,
            count(*) FILTER (WHERE is_present AND withheld <> '' AND withheld <> ALL(%(ill)s)) AS withheld,
            count(*) FILTER (WHERE NOT is_present) AS missing
        FROM {_DEVICE} WHERE withheld <> %(split)s GROUP BY agent_id, slot_name, model, profile
    ), machine AS (
        SELECT device.*, agent.resource_group_id AS group_id, agent.state = %(connected)s AS is_open,
            agent.device_model <> '' AND agent.device_model = device.model AS is_named
        FROM device JOIN {_AGENT} agent ON agent.id = device.agent_id
        WHERE agent.state <> %(retired)s
            AND (%(groups)s::bigint[] IS NULL OR agent.resource_group_id = ANY(%(groups)s))
    )
    SELECT group_id, slot_name, model, profile, max(vendor), max(mem_bytes), count(*), sum(there)::int,
        coalesce(sum(free) FILTER (WHERE is_open), 0)::int, coalesce(max(free) FILTER (WHERE is_open), 0)::int,
        max(there)::int, coalesce(max(part) FILTER (WHERE is_open), 0)::int, sum(ill)::int, sum(withheld)::int,
        sum(missing)::int, bool_or(is_named)
    FROM machine GROUP BY group_id, slot_name, model, profile HAVING sum(there) > 0
    ORDER BY slot_name, model, profile, group_id
"""
_MACHINES = f"""
    SELECT agent.id, agent.name, resource_group.name, device.ids, device.cells
    FROM (
        SELECT agent_id, array_agg(id ORDER BY slot_name, index) AS ids,
            string_agg(concat_ws(' ', occupied, is_present::int, (warning <> '')::int, withheld), ','
                ORDER BY slot_name, index) AS cells
        FROM {_DEVICE} WHERE %(model)s IN ('', model) GROUP BY agent_id
    ) device
    JOIN {_AGENT} agent ON agent.id = device.agent_id
    JOIN {_GROUP} resource_group ON resource_group.id = agent.resource_group_id
    WHERE agent.state <> %(retired)s AND %(group)s IN ('', resource_group.name)
    ORDER BY resource_group.name, agent.name
"""


class DeviceModel(NamedTuple):
    """The accelerators of one model, or of one partition `profile` of it, in one resource group.

    `free` are wholly free ones on machines that accept sessions, `most_free` those of one machine.
    `most` is the largest number on one machine, `most_part` the largest free share of one device in
    thousandths. `is_named`: a request can name the model, as machines of it have no other.
    """

    group_id: int
    slot_name: str
    model: str
    profile: str
    vendor: str
    mem_bytes: int
    machines: int
    total: int
    free: int
    most_free: int
    most: int
    most_part: int
    ill: int
    withheld: int
    missing: int
    is_named: bool


def device_models(group_ids: Collection[int] | None = None) -> list[DeviceModel]:
    """Return the models in these groups, or in all, by slot, model and group. One query."""
    groups = None if group_ids is None else [*group_ids]
    with connection.cursor() as cursor:
        cursor.execute(_MODELS, {**_PARAMETERS, "groups": groups})
        return [DeviceModel(*row) for row in cursor.fetchall()]


class DeviceCell(NamedTuple):
    """One device of a machine; `occupied` in milli-devices."""

    occupied: int
    is_present: bool
    has_warning: bool
    withheld: str


class DeviceMachine(NamedTuple):
    """A machine with accelerators: their primary keys, and in the same order what is known of each."""

    agent_id: int
    name: str
    group: str
    device_ids: Sequence[int]
    devices: tuple[DeviceCell, ...]


def device_machines(*, group: str = "", model: str = "") -> list[DeviceMachine]:
    """Return the machines in use with their accelerators, by group and name; only those of a group
    and a model if given. One query, one row for each machine.
    """
    known: dict[str, tuple[DeviceCell, ...]] = {}  # many machines are alike
    with connection.cursor() as cursor:
        cursor.execute(_MACHINES, {**_PARAMETERS, "group": group, "model": model})
        return [
            DeviceMachine(
                agent_id, name, in_group, ids, known.get(cells) or known.setdefault(cells, _cells(cells))
            )
            for agent_id, name, in_group, ids, cells in cursor.fetchall()
        ]


def _cells(text: str) -> tuple[DeviceCell, ...]:
    words = (each.split(" ") for each in text.split(","))
    return tuple(
        DeviceCell(int(occupied), is_present == "1", has_warning == "1", withheld)
        for occupied, is_present, has_warning, withheld in words
    )
