"""Presence on agents of an image that no registry has."""

from agents.core.states import AgentState
from agents.models import Agent, AgentImage, ResourceGroup
from common.db.prepared import prepared_cursor

_AGENT, _IMAGE = Agent._meta.db_table, AgentImage._meta.db_table
# OFFSET 0 makes PostgreSQL read the agents of the group first, as in `agents.selectors`.
_WITHOUT = f"""
    SELECT count(*) FROM {_AGENT} AS agent
    WHERE agent.resource_group_id = %(group)s AND agent.state = '{AgentState.CONNECTED.value}' AND agent.architecture = %(architecture)s::text
      AND NOT EXISTS (
        SELECT FROM (SELECT id, state, architecture FROM {_AGENT} WHERE resource_group_id = %(group)s OFFSET 0) AS other, LATERAL (
            SELECT EXISTS (SELECT FROM {_IMAGE} AS image WHERE image.agent_id = other.id AND image.reference = %(reference)s::text)
                OR NOT EXISTS (SELECT FROM {_IMAGE} AS image WHERE image.agent_id = other.id) AS has_it OFFSET 0
        ) AS told
        WHERE other.state = '{AgentState.CONNECTED.value}' AND other.architecture = %(architecture)s::text AND told.has_it
      )
"""


def machines_without(group: ResourceGroup, reference: str, architecture: str) -> int:
    """Number of connected agents of this architecture in the group, if none of them has the image;
    0 if any has it. Agents that have not reported images yet count as having it. One query, which
    stops at the first agent that has it.
    """
    asked = {"group": group.pk, "architecture": architecture, "reference": reference}
    with prepared_cursor() as cursor:
        cursor.execute(_WITHOUT, asked)
        return int(cursor.fetchone()[0])
