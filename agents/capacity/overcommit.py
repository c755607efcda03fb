"""Over-commit: the surplus of CPU and memory that agents may allocate beyond their capacity, by the
factors of their group.
"""

from collections.abc import Collection
from typing import Any

from django.db import connection

from agents.models import Agent, AgentSlot, ResourceGroup
from common.values.resources import CPU, MEM

_SLOT = AgentSlot._meta.db_table
# Separate statements: the second sees what was committed while the first waited for the locks.
_LOCK = f"""
    SELECT FROM {_SLOT} WHERE agent_id = ANY(%(agents)s) AND slot_name IN (%(cpu)s, %(mem)s) ORDER BY id FOR NO KEY UPDATE
"""
# LATERAL and OFFSET 0 force one index look-up per agent: with stale statistics of an empty table
# PostgreSQL would scan all requested agents again for each of them.
_UPDATE_SURPLUS = f"""
    WITH wanted AS MATERIALIZED (
        SELECT slot.id, slot.surplus, floor(slot.capacity * CASE slot.slot_name
            WHEN %(cpu)s THEN resources.cpu_overcommit ELSE resources.mem_overcommit END)::bigint - slot.capacity AS new_surplus
        FROM unnest(%(agents)s::bigint[]) AS requested (id) CROSS JOIN LATERAL (
            SELECT resource_group_id FROM {Agent._meta.db_table} WHERE id = requested.id OFFSET 0
        ) AS agent CROSS JOIN LATERAL (
            SELECT * FROM {_SLOT} WHERE agent_id = requested.id AND slot_name IN (%(cpu)s, %(mem)s) OFFSET 0
        ) AS slot JOIN {ResourceGroup._meta.db_table} AS resources ON resources.id = agent.resource_group_id
    )
    UPDATE {_SLOT} AS slot SET surplus = wanted.new_surplus FROM wanted
    WHERE slot.id = wanted.id AND wanted.surplus <> wanted.new_surplus
"""


def apply_overcommit(agent_ids: Collection[int]) -> bool:
    """Set the surplus of CPU and memory of these agents from the factors of their groups; return
    True if anything changed.

    Call it in the transaction that changed their group, its factors or their capacity, after
    locking groups and agents. Allocations stay; where they exceed the new total, nothing starts
    until enough sessions have ended.
    """
    parameters: dict[str, Any] = {"agents": list(agent_ids), "cpu": CPU, "mem": MEM}
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, parameters)
        cursor.execute(_UPDATE_SURPLUS, parameters)
        return bool(cursor.rowcount > 0)
