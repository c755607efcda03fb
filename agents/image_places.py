"""Which machines have an image that no registry has."""

from typing import Any

from django.db import connection

from agents.models import Agent, AgentImage, ResourceGroup
from agents.states import AgentState

_AGENT, _IMAGE = Agent._meta.db_table, AgentImage._meta.db_table
_WITHOUT = f"""
    SELECT count(*) FROM {_AGENT} AS agent
    WHERE agent.resource_group_id = %(group)s AND agent.state = %(state)s AND agent.architecture = %(architecture)s
      AND NOT EXISTS (
        SELECT FROM {_AGENT} AS other
        WHERE other.resource_group_id = %(group)s AND other.state = %(state)s AND other.architecture = %(architecture)s
          AND (EXISTS (SELECT FROM {_IMAGE} AS image WHERE image.agent_id = other.id AND image.reference = %(reference)s)
               OR NOT EXISTS (SELECT FROM {_IMAGE} AS image WHERE image.agent_id = other.id))
      )
"""


def machines_without(group: ResourceGroup, reference: str, architecture: str) -> int:
    """How many machines of the group take sessions of this architecture, if none of them has the image; else 0. What a machine has its
    heartbeats tell; one that told of no image yet counts as if it had all. One query, which ends at the first that has it."""
    asked: dict[str, Any] = {
        "group": group.pk,
        "state": AgentState.CONNECTED.value,
        "architecture": architecture,
        "reference": reference,
    }
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT, asked)
        return int(cursor.fetchone()[0])
