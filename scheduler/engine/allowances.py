"""What domains, projects, people and tokens may hold, and what they have left while a pass places sessions of theirs."""

from scheduler.engine.model import Allowance, Excess, PendingSession
from scheduler.engine.shapes import Shape
from scheduler.engine.vectors import FIELD_BITS, GUARD, Layout


class Account:
    """What one scope has left, as a vector of the slots that it limits."""

    __slots__ = ("allowance", "fields", "guards", "left")

    def __init__(self, allowance: Allowance, layout: Layout, guards: int) -> None:
        held = allowance.held
        left = {name: most - held.get(name, 0) for name, most in allowance.limit.items()}
        self.allowance = allowance
        self.guards = guards
        self.fields = guards - (guards >> FIELD_BITS - 1)
        self.left = layout.pack_room(left) | guards
        if allowance.is_spent:
            self.left, self.guards = 0, GUARD  # not enough for anything


class Allowances:
    """Counts down as sessions are placed; within a pass what is left only shrinks."""

    def __init__(self, allowances: tuple[Allowance, ...], layout: Layout) -> None:
        self._accounts: dict[str, Account] = {}
        guards: dict[tuple[str, ...], int] = {}  # scopes mostly limit the same
        for allowance in allowances:
            limited = tuple(allowance.limit)
            if limited not in guards:
                guards[limited] = layout.guards_of(limited)
            self._accounts[allowance.key] = Account(allowance, layout, guards[limited])
        self._layout = layout
        self._by_scopes: dict[tuple[str, ...], tuple[Account, ...]] = {}
        self._kept: dict[Account, int] = {}  # what those have left of which nobody may have any

    def of(self, scopes: tuple[str, ...]) -> tuple[Account, ...]:
        """Those of the scopes that have any, in their order."""
        accounts = self._by_scopes.get(scopes)
        if accounts is None:
            found = (self._accounts.get(key) for key in scopes)
            accounts = self._by_scopes[scopes] = tuple(account for account in found if account is not None)
        return accounts

    def keep(self, account: Account, shape: Shape) -> None:
        """Let nobody have what is left, so that it gathers for `shape`, which exceeds the limit now but would not if
        all others ended."""
        most = self._layout.pack_room(account.allowance.limit)
        is_possible = self._layout.fits(shape.total & account.fields, most)
        if is_possible and account not in self._kept and not account.allowance.is_spent:
            self._kept[account] = account.left
            account.left = account.guards

    def open_all(self) -> None:
        """Keep nothing any more."""
        for account, left in self._kept.items():
            account.left = left
        self._kept.clear()

    def excess(self, session: PendingSession, shape: Shape) -> Excess | None:
        """The first limit that `session` would exceed now, in the order of its scopes."""
        account = exceeded(self.of(session.scopes), shape)
        if account is None:
            return None
        allowance = account.allowance
        if allowance.is_spent:
            return Excess(allowance, {}, {}, {})
        asked, left = shape.needs.total, self._layout.unpack(account.left ^ account.guards)
        over = sorted(name for name in allowance.limit if asked[name] > left[name])
        limit = {name: allowance.limit[name] for name in over}
        held = {name: max(limit[name] - left[name], allowance.held.get(name, 0)) for name in over}
        return Excess(allowance, {name: asked[name] for name in over}, held, limit)


def exceeded(accounts: tuple[Account, ...], shape: Shape) -> Account | None:
    """The first that has not enough left for `shape`."""
    total = shape.total
    for account in accounts:
        guards = account.guards
        if (account.left - (total & account.fields)) & guards != guards:
            return account
    return None


def charge(accounts: tuple[Account, ...], shape: Shape) -> None:
    for account in accounts:
        account.left -= shape.total & account.fields
