"""What placing newcomers has to read: their group as it is now, they themselves, and what their scopes may hold. One statement, which
locks the plans of the group, so that the next one sees all that others placed there."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.budget_selectors import ANY_BUDGET, budget_states
from accounts.limits import SCOPES, read_scopes
from agents.models import ResourceGroup
from common import clock
from common.locks import in_ms, lock_number
from common.prepared import array_of, columns_of, instance_of, prepared_cursor
from scheduler.commit import lock_plans, plans_of
from scheduler.engine import Allowance, PendingSession
from scheduler.group_limits import GroupLimits
from scheduler.models import SchedulerState
from scheduler.snapshot import WAITING_OF_THESE, ScopeKey, allowances_of, pending_of
from sessions_app.limits import owners_of

_GROUP = columns_of(ResourceGroup)
_SCOPE_COLUMNS = {"domain": "domain_id", "project": "project_id", "user": "owner_id", "keypair": "keypair_id"}
_IDS = {level: f"ANY (ARRAY(SELECT {column} FROM newcomer))" for level, column in _SCOPE_COLUMNS.items()}
# The scopes as text: they are on the row of each container, and read once.
_READ = f"""
    WITH mine AS MATERIALIZED (
        SELECT pg_try_advisory_xact_lock(%(lock)s::bigint) AS is_mine,
            set_config('lock_timeout', coalesce(%(patience)s::text, current_setting('lock_timeout')), true)
    ), newcomer AS MATERIALIZED ({WAITING_OF_THESE})
    SELECT mine.is_mine, {", ".join(f"its_group.{column}" for column in _GROUP)},
        coalesce((SELECT epoch FROM {SchedulerState._meta.db_table} WHERE group_id = its_group.id), 0),
        (SELECT coalesce(json_agg(json_build_array(level, id, name, policy, used)), '[]')::text
         FROM ({SCOPES.format(**_IDS)}) AS its_scopes),
        {ANY_BUDGET.format(**_IDS)},
        newcomer.*
    FROM mine, {ResourceGroup._meta.db_table} AS its_group LEFT JOIN newcomer ON true WHERE its_group.id = %(group)s
"""


def read_newcomers(
    group_id: int,
    session_ids: Collection[UUID],
    reservations: Mapping[str, frozenset[int]],
    wait_s: float | None = None,
) -> tuple[ResourceGroup, int, list[PendingSession], tuple[Allowance, ...], datetime]:
    """The group, its epoch, those of these that wait in it, what their scopes may hold, and when that was; nobody else commits a plan of it until the present
    transaction ends. `reservations` by scope as of a snapshot; `wait_s` as `place_newcomers` has it, for all that follows. 1 query, and
    4 at most where there are budgets, one more where limits of the group hold, 5 more where somebody is committing a plan. Raises GroupBusy, ResourceGroup.DoesNotExist."""
    rows = _rows(group_id, session_ids, wait_s)
    if rows and not rows[0][0]:
        lock_plans(group_id, wait_s)
        rows = _rows(group_id, session_ids, wait_s)
    if not rows:
        raise ResourceGroup.DoesNotExist(f"There is no resource group {group_id}.")
    rows = [row[1:] for row in rows]
    group = instance_of(ResourceGroup, rows[0][: len(_GROUP)])
    assert group is not None
    epoch, said_scopes, have_budgets = rows[0][len(_GROUP) : len(_GROUP) + 3]
    keys: set[ScopeKey] = set()
    kernels = [row[len(_GROUP) + 3 :] for row in rows]
    now = clock.now()
    limits = GroupLimits(group, now)
    waiting = [row for row in kernels if row[0] is not None]
    newcomers = list(pending_of(waiting, keys, set(), reservations, limits=limits))
    budgets = budget_states(owners_of(keys)) if have_budgets else ()
    allowances = allowances_of(read_scopes(json.loads(said_scopes)), budgets)
    return group, epoch, newcomers, (*allowances, *limits.allowances()), now


def _rows(group_id: int, session_ids: Collection[UUID], wait_s: float | None) -> list[Sequence[Any]]:
    values = {
        "lock": lock_number(plans_of(group_id)),
        "patience": None if wait_s is None else in_ms(wait_s),
        "group": group_id,
        "sessions": array_of(session_ids),
    }
    with prepared_cursor() as cursor:
        cursor.execute(_READ, values)
        return list(cursor.fetchall())
