"""Read which agents host sessions of which placement group."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from agents.models import Agent
from common.db.rows import read_rows
from scheduler.engine import GroupHost, PendingSession, PlacementGroup, PlacementRule
from sessions_app.models import ComputeSession, Kernel

# Key of a session's placement group, as `placement_key` makes it; of its array if it names no group.
KEY = """
    CASE WHEN session.placement_rule = '' THEN NULL
         WHEN session.placement_group = '' THEN session.array_id::text
         ELSE session.project_id || ':' || session.owner_id || ':' || session.placement_group END
"""
_HOSTS = f"""
    SELECT key, agent_id, count(DISTINCT id) AS sessions
    FROM (SELECT session.id, kernel.agent_id, {KEY} AS key
          FROM {ComputeSession._meta.db_table} AS session
          JOIN {Kernel._meta.db_table} AS kernel ON kernel.session_id = session.id
          JOIN {Agent._meta.db_table} AS agent ON agent.id = kernel.agent_id
          WHERE session.placement_rule <> '' AND session.ended_at IS NULL AND session.status <> 'PENDING'
            AND agent.resource_group_id = %(group)s) AS placed
    WHERE key = ANY(%(keys)s) GROUP BY key, agent_id ORDER BY key, agent_id
"""


class _HostRow(NamedTuple):
    """Row of `_HOSTS`."""

    key: str
    agent_id: int
    sessions: int


def read_group_hosts(group_id: int, keys: Collection[str]) -> dict[str, tuple[GroupHost, ...]]:
    """Return the agents of a resource group that host sessions of each placement group, as {key:
    hosts}; () if none. One query, none without keys.
    """
    if not keys:
        return {}
    found: dict[str, list[GroupHost]] = {key: [] for key in keys}
    for row in read_rows(_HostRow, _HOSTS, {"group": group_id, "keys": list(keys)}):
        found[row.key].append(GroupHost(row.agent_id, row.sessions))
    return {key: tuple(hosts) for key, hosts in found.items()}


def group_keys(sessions: Iterable[PendingSession]) -> set[str]:
    """Return the keys of the placement groups that the sessions name."""
    return {
        each.requirements.placement_group.key
        for each in sessions
        if each.requirements.placement_group is not None
    }


def placement_group(key: str | None, rule: str) -> PlacementGroup | None:
    """Make the engine's placement group from columns of a session or a forecast request; None
    without a rule.
    """
    return PlacementGroup(key, PlacementRule(rule)) if key and rule else None
