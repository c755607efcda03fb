"""Read current and decayed past use of a resource group per domain, project and user, as input of
fair share.

Past use is an average over all past time in which weight halves with each half-life. A trigger
keeps it for ended sessions (`DecayedUse`, ADR 35); running sessions are added when it is read, so
that nothing is written while they run.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from accounts.core.limits import Level
from accounts.models import Project
from agents.models import Agent, ResourceGroup
from common.db.rows import read_rows
from common.values.resources import ResourceSlots
from scheduler.engine import AgentView, Policy, Tenant
from scheduler.engine.agent_views import total_capacity
from scheduler.models import DecayedUse, ShareWeight
from sessions_app.models import ComputeSession, Kernel, KernelAllocation

Holder = tuple[Level, int]
SHARE_LEVELS = (Level.DOMAIN, Level.PROJECT, Level.USER)
WEIGHTED = frozenset({Policy.DRF, Policy.FAIR_SHARE})

# One statement: two would miss, or count twice, a session that ends between them.
_HELD = f"""
    SELECT session.domain_id, session.project_id, session.owner_id, held.slot_name,
           sum(held.amount)::bigint AS held, {{lately}} AS lately
    FROM {KernelAllocation._meta.db_table} AS held
    JOIN {Agent._meta.db_table} AS agent ON agent.id = held.agent_id
    JOIN {Kernel._meta.db_table} AS kernel ON kernel.id = held.kernel_id
    JOIN {ComputeSession._meta.db_table} AS session ON session.id = kernel.session_id
    WHERE agent.resource_group_id = %(group_id)s
    GROUP BY 1, 2, 3, 4
"""
_HELD_NOW = _HELD.format(lately="0")
_HELD_LATELY = _HELD.format(
    lately="sum(held.amount * (1 - berth_decay(%(now)s - held.held_since, %(half_life_s)s)))"
)
_KEPT = f"""
    UNION ALL
    SELECT project.domain_id, past.project_id, past.user_id, past.slot_name, 0,
           past.average * berth_decay(%(now)s - past.as_of, %(half_life_s)s)
    FROM {DecayedUse._meta.db_table} AS past
    JOIN {Project._meta.db_table} AS project ON project.id = past.project_id
    WHERE past.group_id = %(group_id)s
"""


class _UseRow(NamedTuple):
    """Row of `_HELD`: use of one slot by the sessions of one owner in one project."""

    domain_id: int
    project_id: int
    owner_id: int
    slot_name: str
    held: int
    lately: float


class Usage:
    """Current allocation and decayed average allocation of one holder, in base units by slot."""

    __slots__ = ("held", "lately")

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.lately: dict[str, float] = {}

    def add(self, slot_name: str, held: int, lately: float) -> None:
        if held:
            self.held[slot_name] = self.held.get(slot_name, 0) + held
        if lately:
            self.lately[slot_name] = self.lately.get(slot_name, 0.0) + lately


def read_usage(
    group: ResourceGroup, now: datetime, *, with_past: bool = True
) -> dict[tuple[int, int, int], Usage]:
    """Return use by (domain, project, owner). 1 query."""
    values: dict[str, int | datetime] = {
        "group_id": group.pk,
        "half_life_s": group.usage_half_life_s,
        "now": now,
    }
    uses: dict[tuple[int, int, int], Usage] = {}
    for row in read_rows(_UseRow, _HELD_LATELY + _KEPT if with_past else _HELD_NOW, values):
        use = uses.setdefault((row.domain_id, row.project_id, row.owner_id), Usage())
        use.add(row.slot_name, row.held, row.lately)
    return uses


def sum_by_holder(
    uses: Mapping[tuple[int, int, int], Usage], levels: Iterable[Level] = SHARE_LEVELS
) -> dict[Holder, Usage]:
    """Sum the use per domain, project and user."""
    wanted = [(SHARE_LEVELS.index(level), level) for level in levels]
    found: dict[Holder, Usage] = {}
    for ids, use in uses.items():
        for index, level in wanted:
            holder = level, ids[index]
            whole = found.setdefault(holder, Usage())
            for slot_name in use.held.keys() | use.lately.keys():
                whole.add(slot_name, use.held.get(slot_name, 0), use.lately.get(slot_name, 0.0))
    return found


def read_weights(group_id: int, levels: Iterable[Level] = SHARE_LEVELS) -> dict[Holder, float]:
    """Return the weights that differ from 1. 1 query."""
    weights = {}
    for row in ShareWeight.objects.filter(group_id=group_id):
        ids = zip(SHARE_LEVELS, (row.domain_id, row.project_id, row.user_id), strict=True)
        level, holder_id = next((level, each) for level, each in ids if each)
        if level in levels:
            weights[level, holder_id] = float(row.weight)
    return weights


def read_tenants(
    group: ResourceGroup, policy: Policy, agents: Iterable[AgentView], now: datetime
) -> dict[Holder, Tenant]:
    """Return the tenants with use or a weight in the group; only owners if the policy ignores the
    past. 2 queries.
    """
    counts_past = policy is Policy.FAIR_SHARE
    levels = SHARE_LEVELS if counts_past else (Level.USER,)
    uses = sum_by_holder(read_usage(group, now, with_past=counts_past), levels)
    weights, total = read_weights(group.pk, levels), total_capacity(agents)
    return {
        holder: make_tenant(uses.get(holder), weights.get(holder, 1.0), total if counts_past else {})
        for holder in uses.keys() | weights.keys()
    }


def make_tenant(use: Usage | None, weight: float, total: Mapping[str, int]) -> Tenant:
    """Make the engine's tenant. `total`: capacity of the slots whose past use counts."""
    if use is None:
        return Tenant(weight)
    return Tenant(weight, ResourceSlots(use.held), dominant_share(use.lately, total))


def dominant_share(amounts: Mapping[str, float], total: Mapping[str, int]) -> float:
    """Return the largest fraction of any slot, at most 1, as the group may have had more agents in
    the past.
    """
    fractions = (amount / total[name] for name, amount in amounts.items() if total.get(name))
    return min(1.0, max(fractions, default=0.0))
