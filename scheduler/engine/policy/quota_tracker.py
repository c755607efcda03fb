"""Track the quotas of domains, projects, users, keypairs and the group while a pass places
sessions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.engine.index.request_class import RequestClass
from scheduler.engine.index.resource_vector import Layout
from scheduler.engine.plan import Excess
from scheduler.engine.snapshot import PendingSession, Quota

MAX_SCOPE_LISTS = 10_000  # scopes without pending sessions stay until the cache is cleared
GROUP, GROUP_USER = "group", "group_user"
"""Levels of a resource group's own limits: of all its sessions, of those of one person."""
OF_GROUP = frozenset({GROUP, GROUP_USER})
OF_OWNER = frozenset({"user", "keypair", GROUP_USER})  # levels of limits that delay nobody but the owner
EXHAUSTED = 0  # less than any request, because not even the guards are left


class Account:
    """Remaining quota of one scope, as a vector with its guards set."""

    __slots__ = ("quota", "remaining", "remaining_at_start")

    def __init__(self, allowance: Quota, left: int) -> None:
        self.quota = allowance
        self.remaining_at_start = left  # at the start of the pass
        self.remaining = left

    @property
    def is_shared(self) -> bool:
        """True if the limit delays other owners too."""
        return self.quota.level not in OF_OWNER


@dataclass(slots=True)
class Earmark:
    """Quota reserved for sessions with reserved capacity: total, and claim of each session."""

    amount: int = 0
    claims: list[tuple[PendingSession, int]] = field(default_factory=list)


def undo(accounts: Iterable[Account], total: int) -> None:
    """Undo a deduction from each of these accounts."""
    for account in accounts:
        account.remaining += total


class QuotaTracker:
    """Quotas of a pass, deducted as sessions are placed; remaining amounts only shrink."""

    def __init__(self, allowances: tuple[Quota, ...], layout: Layout) -> None:
        self._layout = layout
        self._quotas = allowances
        self._accounts = {each.key: Account(each, self._remaining(each)) for each in allowances}
        self.by_scopes: dict[tuple[str, ...], tuple[Account, ...]] = {}  # cache of `accounts_for`
        # Accumulating quotas: amount, priority of the session, and its request.
        self._accumulating: dict[Account, tuple[int, int, int]] = {}
        self._accumulated: dict[
            Account, tuple[int, int]
        ] = {}  # after `remove_reservations`: priority and request
        self._earmarks: dict[Account, Earmark] = {}
        # After `remove_reservations`, by scopes: what fits in it exceeds no quota.
        self.least_remaining: dict[tuple[str, ...], int] = {}

    def update(self, allowances: tuple[Quota, ...]) -> bool:
        """Begin another pass with later allowances. Return False if they are of other scopes; then
        a new object is needed.
        """
        if allowances is not self._quotas:
            if self._accounts.keys() != {each.key for each in allowances}:
                return False
            for each in allowances:
                account = self._accounts[each.key]
                if account.quota is not each:
                    account.quota, account.remaining_at_start = each, self._remaining(each)
            self._quotas = allowances
        for account in self._accounts.values():
            account.remaining = account.remaining_at_start
        self._accumulating.clear()
        self._accumulated.clear()
        self._earmarks.clear()
        self.least_remaining.clear()
        if len(self.by_scopes) > MAX_SCOPE_LISTS:
            self.by_scopes.clear()
        return True

    def accounts_for(self, scopes: tuple[str, ...]) -> tuple[Account, ...]:
        """Return the accounts of these scopes that have a limit, in order."""
        accounts = self.by_scopes.get(scopes)
        if accounts is None:
            all_accounts = self._accounts
            accounts = tuple([all_accounts[key] for key in dict.fromkeys(scopes) if key in all_accounts])
            self.by_scopes[scopes] = accounts
        return accounts

    def accumulate(self, session: PendingSession, total: int) -> None:
        """Let the quotas that the session exceeds accumulate for it: reserve all that is left of
        short slots and its request of the others; also its request of its owner's other quotas.
        Does nothing if a quota is reserved for another session, or would be exceeded on an idle
        system.
        """
        guards = self._layout.guards
        exceeded = [
            each for each in self.accounts_for(session.scopes) if (each.remaining - total) & guards != guards
        ]
        if not all(self._may_accumulate(each, total) for each in exceeded):
            return
        for account in exceeded:
            beside = self._beside(account.remaining, total)
            self._accumulating[account] = account.remaining - beside, session.priority, total
            account.remaining = beside
        self.earmark(session, total, of_owner_alone=True)

    def _may_accumulate(self, account: Account, total: int) -> bool:
        allowance, layout = account.quota, self._layout
        is_kept = account in self._accumulating or allowance.is_exhausted
        return not is_kept and layout.fits(total, layout.pack_limit(allowance.limit))

    def earmark(self, session: PendingSession, total: int, *, of_owner_alone: bool) -> None:
        """Reserve the request in its quotas for a session with reserved capacity, so that sessions
        passing it do not use them up. `of_owner_alone`: the start is unknown, so only quotas that
        delay nobody else are reserved.
        """
        for account in self.accounts_for(session.scopes):
            if account in self._accumulating or (of_owner_alone and account.is_shared):
                continue
            aside = self._earmarks.setdefault(account, Earmark())
            aside.claims.append((session, total))
            aside.amount += total
            account.remaining -= total

    def are_reserved(self, scopes: tuple[str, ...]) -> bool:
        """Return True if, after `remove_reservations`, any of these quotas had a reservation."""
        return any(
            account in self._accumulated or account in self._earmarks for account in self.accounts_for(scopes)
        )

    def remove_reservations(self) -> None:
        """Remove all reservations."""
        for account, (gathered, priority, total) in self._accumulating.items():
            account.remaining += gathered
            self._accumulated[account] = priority, total
        self._accumulating.clear()
        for account, aside in self._earmarks.items():
            account.remaining += aside.amount

    def suffice_beside(self, session: PendingSession, request_class: RequestClass, up_to: int) -> bool:
        """Return True if, after `remove_reservations`, its quotas suffice beside reservations of that priority
        or lower.
        """
        guards = self._layout.guards
        return all(
            (self._remaining_beside(account, session, up_to) - request_class.total) & guards == guards
            for account in self.accounts_for(session.scopes)
        )

    def _remaining_beside(self, account: Account, session: PendingSession, priority: int) -> int:
        left, aside = account.remaining, self._earmarks.get(account)
        if account in self._accumulated:
            its_priority, total = self._accumulated[account]
            left = self._beside(left, total) if its_priority <= priority else left
        for other, total in aside.claims if aside else ():
            if other is not session and other.priority <= priority:
                left = self._beside(left, total)
        return left

    def _beside(self, left: int, total: int) -> int:
        """Return the rest beside `total`, at least nothing; an exhausted budget stays exhausted."""
        guards = left & self._layout.guards
        return self._layout.less(left ^ guards, total) | guards

    def excess(self, session: PendingSession, request_class: RequestClass) -> Excess | None:
        """Return the first limit that `session` exceeds after `remove_reservations`, in the order of its
        scopes.
        """
        guards, total, scopes = self._layout.guards, request_class.total, session.scopes
        least = self.least_remaining.get(scopes)
        if least is None:
            least = self.least_remaining[scopes] = self._least_remaining(scopes)
        if (least - total) & guards == guards:
            return None
        first = next(
            each for each in self.accounts_for(scopes) if (each.remaining - total) & guards != guards
        )
        return self._excess(first, request_class)

    def _least_remaining(self, scopes: tuple[str, ...]) -> int:
        """Return the field-wise minimum of these quotas with guards set; less than any request if a
        budget is exhausted.
        """
        layout, least = self._layout, self._layout.pack_limit({})
        for account in self.accounts_for(scopes):
            if account.remaining == EXHAUSTED:
                return EXHAUSTED
            least = layout.lesser(least, account.remaining ^ layout.guards)
        return least | layout.guards

    def _excess(self, account: Account, request_class: RequestClass) -> Excess:
        allowance = account.quota
        if allowance.is_exhausted:
            return Excess(allowance, {}, {}, {})
        asked, left = (
            request_class.requirements.total,
            self._layout.unpack(account.remaining ^ self._layout.guards),
        )
        over = sorted(name for name in allowance.limit if asked[name] > left[name])
        limit = {name: allowance.limit[name] for name in over}
        held = {name: max(limit[name] - left[name], allowance.allocated.get(name, 0)) for name in over}
        return Excess(allowance, {name: asked[name] for name in over}, held, limit)

    def _remaining(self, allowance: Quota) -> int:
        if allowance.is_exhausted:
            return EXHAUSTED
        layout, limit, held = self._layout, allowance.limit, allowance.allocated
        used = {name: held[name] for name in limit if name in held} if held else held
        return layout.less(layout.pack_limit(limit), layout.pack_room(used)) | layout.guards
