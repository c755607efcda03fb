"""Track fair shares of domains, projects and owners while a pass places sessions."""

from collections.abc import Iterable, Mapping

from scheduler.engine.index.request_shape import fractions_of
from scheduler.engine.snapshot import Snapshot, Tenant
from scheduler.engine.values import Fractions, Policy

# Weight of past use against present use. With 1, tenants that request much at a time, and so have
# nothing allocated at each decision, get a third more over a day.
PAST_COUNTS = 4

NOBODY = ("",)  # sessions without tenants share as one

NEWCOMER = Tenant()


class Standing:
    """Fair share of one tenant: its largest allocated fraction of any slot plus `PAST_COUNTS` times
    its past share, divided by its weight.
    """

    __slots__ = ("held", "lately", "most", "share", "weight")

    def __init__(self, slots: int = 0, lately: float = 0.0, weight: float = 1.0) -> None:
        self.held = [0.0] * slots
        self.most = 0.0  # maximum of `held`
        self.lately = PAST_COUNTS * lately
        self.weight = weight
        self.share = self.lately / weight


def charge(standings: Iterable[Standing], fractions: Fractions) -> None:
    """Add fractions to each entry. One call for all entries, as it runs for each placement."""
    for standing in standings:
        held, most = standing.held, standing.most
        for slot, fraction in fractions:
            held[slot] = amount = held[slot] + fraction
            if amount > most:
                most = amount
        standing.most = most
        standing.share = (most + standing.lately) / standing.weight


class Shares:
    """Fair shares of the tenants of a group. DRF counts owners and present use; fair share counts
    domain, project and owner, and past use too.
    """

    def __init__(self, snapshot: Snapshot, total: Mapping[str, int]) -> None:
        self._counts_past = snapshot.rules.policy is Policy.FAIR_SHARE
        self._tenants = snapshot.tenants
        self._total = total
        self.known: dict[str, Standing] = {}  # those used so far

    def share(self, key: str) -> float:
        """Return the share of a tenant; unknown tenants get no entry."""
        is_newcomer = key not in self.known and key not in self._tenants
        return 0.0 if is_newcomer else self.standing(key).share

    def standing(self, key: str) -> Standing:
        """Return the entry of a tenant; always the same object."""
        standing = self.known.get(key)
        if standing is None:
            tenant = self._tenants.get(key, NEWCOMER)
            lately = tenant.lately if self._counts_past else 0.0
            standing = self.known[key] = Standing(len(self._total), lately, tenant.weight)
            if tenant is not NEWCOMER:
                charge((standing,), fractions_of(tenant.held, self._total))
        return standing
