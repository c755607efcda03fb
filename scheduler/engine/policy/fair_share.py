"""Track fair shares of domains, projects and owners while a pass places sessions."""

from collections.abc import Iterable, Mapping

from scheduler.engine.index.request_class import total_fractions
from scheduler.engine.snapshot import Snapshot, Tenant
from scheduler.engine.values import Fractions, Policy

# Weight of past use against present use. With 1, tenants that request much at a time, and so have
# nothing allocated at each decision, get a third more over a day.
PAST_WEIGHT = 4

NO_TENANTS = ("",)  # sessions without tenants share as one

NEW_TENANT = Tenant()


class TenantShare:
    """Fair share of one tenant: its largest allocated fraction of any slot plus `PAST_WEIGHT` times
    its past share, divided by its weight.
    """

    __slots__ = ("allocated", "most", "past", "share", "weight")

    def __init__(self, slots: int = 0, lately: float = 0.0, weight: float = 1.0) -> None:
        self.allocated = [0.0] * slots
        self.most = 0.0  # maximum of `held`
        self.past = PAST_WEIGHT * lately
        self.weight = weight
        self.share = self.past / weight


def charge(shares: Iterable[TenantShare], fractions: Fractions) -> None:
    """Add fractions to each entry. One call for all entries, as it runs for each placement."""
    for share_entry in shares:
        held, most = share_entry.allocated, share_entry.most
        for slot, fraction in fractions:
            held[slot] = amount = held[slot] + fraction
            if amount > most:
                most = amount
        share_entry.most = most
        share_entry.share = (most + share_entry.past) / share_entry.weight


class TenantShares:
    """Fair shares of the tenants of a group. DRF counts owners and present use; fair share counts
    domain, project and owner, and past use too.
    """

    def __init__(self, snapshot: Snapshot, total: Mapping[str, int]) -> None:
        self._counts_past = snapshot.rules.policy is Policy.FAIR_SHARE
        self._tenants = snapshot.tenants
        self._total = total
        self.known: dict[str, TenantShare] = {}  # those used so far

    def share(self, key: str) -> float:
        """Return the share of a tenant; unknown tenants get no entry."""
        is_newcomer = key not in self.known and key not in self._tenants
        return 0.0 if is_newcomer else self.entry(key).share

    def entry(self, key: str) -> TenantShare:
        """Return the entry of a tenant; always the same object."""
        share_entry = self.known.get(key)
        if share_entry is None:
            tenant = self._tenants.get(key, NEW_TENANT)
            lately = tenant.past_share if self._counts_past else 0.0
            share_entry = self.known[key] = TenantShare(len(self._total), lately, tenant.weight)
            if tenant is not NEW_TENANT:
                charge((share_entry,), total_fractions(tenant.allocated, self._total))
        return share_entry
