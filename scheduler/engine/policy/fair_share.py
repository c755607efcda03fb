"""What share of a group domains, projects and owners have, while a pass places sessions of theirs."""

from collections.abc import Iterable, Mapping

from scheduler.engine.index.request_shape import fractions_of
from scheduler.engine.snapshot import Snapshot, Tenant
from scheduler.engine.values import Fractions, Policy

# What was held lately counts so many times what is held now. At 1, whoever asks for much at a time, and so holds nothing whenever
# it is decided, has a third more than others over a day.
PAST_COUNTS = 4

NOBODY = ("",)  # sessions without tenants share as one

NEWCOMER = Tenant()


class Standing:
    """One tenant's share: the largest fraction of any slot that it holds and, times `PAST_COUNTS`, held lately, for its weight."""

    __slots__ = ("held", "lately", "most", "share", "weight")

    def __init__(self, slots: int = 0, lately: float = 0.0, weight: float = 1.0) -> None:
        self.held = [0.0] * slots
        self.most = 0.0  # of `held`
        self.lately = PAST_COUNTS * lately
        self.weight = weight
        self.share = self.lately / weight


def charge(standings: Iterable[Standing], fractions: Fractions) -> None:
    """Let each of these hold so much more. One call for all of them: it is made for each session that is placed."""
    for standing in standings:
        held, most = standing.held, standing.most
        for slot, fraction in fractions:
            held[slot] = amount = held[slot] + fraction
            if amount > most:
                most = amount
        standing.most = most
        standing.share = (most + standing.lately) / standing.weight


class Shares:
    """Where each tenant of the group stands. DRF looks at owners and the present alone; fair share at domain, project and
    owner, and at what each held lately."""

    def __init__(self, snapshot: Snapshot, total: Mapping[str, int]) -> None:
        self._counts_past = snapshot.rules.policy is Policy.FAIR_SHARE
        self._tenants = snapshot.tenants
        self._total = total
        self.known: dict[str, Standing] = {}  # those that were asked for

    def share(self, key: str) -> float:
        """Of the tenant with this key. Of whom nothing is known, nothing is made."""
        is_newcomer = key not in self.known and key not in self._tenants
        return 0.0 if is_newcomer else self.standing(key).share

    def standing(self, key: str) -> Standing:
        """Of the tenant with this key: one object, wherever it is asked for."""
        standing = self.known.get(key)
        if standing is None:
            tenant = self._tenants.get(key, NEWCOMER)
            lately = tenant.lately if self._counts_past else 0.0
            standing = self.known[key] = Standing(len(self._total), lately, tenant.weight)
            if tenant is not NEWCOMER:
                charge((standing,), fractions_of(tenant.held, self._total))
        return standing
