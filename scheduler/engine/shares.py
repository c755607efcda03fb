"""What share of a group domains, projects and owners have, while a pass places sessions of theirs."""

from operator import add

from common.slots import ResourceSlots
from scheduler.engine.model import PendingSession, Policy, Snapshot, Tenant

NOBODY = ("",)  # sessions without tenants share as one
NEWCOMER = Tenant()
Fractions = tuple[float, ...]  # of all that the group has, by slot; and a zero, for groups that have nothing


class Standing:
    """One tenant's share: the largest fraction of any slot that it holds, what it held lately added, for its weight."""

    __slots__ = ("_held", "_lately", "_weight", "share")

    def __init__(self, held: Fractions = (0.0,), lately: float = 0.0, weight: float = 1.0) -> None:
        self._held = held
        self._lately = lately
        self._weight = weight
        self.share = (max(held) + lately) / weight

    def charge(self, fractions: Fractions) -> None:
        self._held = held = tuple(map(add, self._held, fractions))
        self.share = (max(held) + self._lately) / self._weight


class Shares:
    """Grows as sessions are placed. DRF looks at owners and the present alone; fair share at domain, project and owner, and
    at what each held lately."""

    def __init__(self, snapshot: Snapshot) -> None:
        policy = snapshot.rules.policy
        self._is_flat = policy is Policy.DRF
        self._counts_past = policy is Policy.FAIR_SHARE
        self._is_used = policy in (Policy.DRF, Policy.FAIR_SHARE)
        self._tenants = snapshot.tenants
        self._total: dict[str, int] = {}
        for agent in snapshot.agents if self._is_used else ():
            for name, amount in agent.capacity.items():
                self._total[name] = self._total.get(name, 0) + amount
        self._nothing = (0.0,) * (len(self._total) + 1)
        self._standings: dict[str, Standing] = {}
        self._paths: dict[tuple[str, ...], tuple[tuple[str, Standing], ...]] = {}

    def fractions(self, slots: ResourceSlots) -> Fractions:
        if not slots:
            return self._nothing
        return (0.0, *[slots[name] / amount for name, amount in self._total.items()])

    def of(self, tenants: tuple[str, ...]) -> tuple[tuple[str, Standing], ...]:
        """Key and standing of those that count, the widest first."""
        path = self._paths.get(tenants)
        if path is None:
            keys = (tenants or NOBODY)[-1:] if self._is_flat else tenants or NOBODY
            path = self._paths[tenants] = tuple((key, self._standing(key)) for key in keys)
        return path

    def charge(self, session: PendingSession, fractions: Fractions) -> None:
        if self._is_used:
            for _, standing in self._paths[session.tenants]:
                standing.charge(fractions)

    def _standing(self, key: str) -> Standing:
        if key not in self._standings:
            tenant = self._tenants.get(key, NEWCOMER)
            lately = tenant.lately if self._counts_past else 0.0
            self._standings[key] = Standing(self.fractions(tenant.held), lately, tenant.weight)
        return self._standings[key]
