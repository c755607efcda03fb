"""What domains, projects, people and tokens may hold, and what they have left while a pass places sessions of theirs."""

from collections.abc import Iterable

from scheduler.engine.model import Allowance, Excess, PendingSession
from scheduler.engine.shapes import Shape
from scheduler.engine.vectors import Layout

MOST_PATHS = 10_000  # people of whom nothing waits any more leave theirs behind
SPENT = 0  # less than any request, because not even the guards are left


class Account:
    """What one scope has left, as a vector with its guards set."""

    __slots__ = ("allowance", "left", "left_at_first")

    def __init__(self, allowance: Allowance, left: int) -> None:
        self.allowance = allowance
        self.left_at_first = left  # as the pass began
        self.left = left


def give_back(accounts: Iterable[Account], total: int) -> None:
    """What was taken from each of these."""
    for account in accounts:
        account.left += total


class Allowances:
    """Counts down as sessions are placed; within a pass what is left only shrinks."""

    def __init__(self, allowances: tuple[Allowance, ...], layout: Layout) -> None:
        self._layout = layout
        self._seen = allowances
        self._accounts = {each.key: Account(each, self._left(each)) for each in allowances}
        self.by_scopes: dict[tuple[str, ...], tuple[Account, ...]] = {}  # those that were asked for
        # What those have left of which nobody may have any, and the priority of the session for which it is kept.
        self._kept: dict[Account, tuple[int, int]] = {}
        self._closed: dict[Account, int] = {}  # once all is open: the priorities of those that were kept
        self.leasts: dict[
            tuple[str, ...], int
        ] = {}  # once all is open, by scopes: what fits there exceeds none

    def follow(self, allowances: tuple[Allowance, ...]) -> bool:
        """Begin another pass with what later allowances say. False, if they are of other scopes: then only new ones are
        right."""
        if allowances is not self._seen:
            if self._accounts.keys() != {each.key for each in allowances}:
                return False
            for each in allowances:
                account = self._accounts[each.key]
                if account.allowance is not each:
                    account.allowance, account.left_at_first = each, self._left(each)
            self._seen = allowances
        for account in self._accounts.values():
            account.left = account.left_at_first
        self._kept.clear()
        self._closed.clear()
        self.leasts.clear()
        if len(self.by_scopes) > MOST_PATHS:
            self.by_scopes.clear()
        return True

    def of(self, scopes: tuple[str, ...]) -> tuple[Account, ...]:
        """Those of the scopes that have any, in their order."""
        accounts = self.by_scopes.get(scopes)
        if accounts is None:
            all_accounts = self._accounts
            accounts = tuple([all_accounts[key] for key in dict.fromkeys(scopes) if key in all_accounts])
            self.by_scopes[scopes] = accounts
        return accounts

    def keep(self, account: Account, shape: Shape, priority: int) -> None:
        """Let nobody have what is left, so that it gathers for `shape`, which exceeds the limit now but would not if
        all others ended."""
        allowance, layout = account.allowance, self._layout
        if (
            account not in self._kept
            and not allowance.is_spent
            and layout.fits(shape.total, layout.pack_limit(allowance.limit))
        ):
            self._kept[account] = account.left, priority
            account.left = self._nothing_of(allowance)

    def open_all(self) -> None:
        """Keep nothing any more."""
        for account, (left, priority) in self._kept.items():
            account.left = left
            self._closed[account] = priority
        self._kept.clear()

    def leave_beside(self, session: PendingSession, shape: Shape) -> bool:
        """Whether, once all is open, its limits have room for `session` beside what was kept for those of its priority or a lower one."""
        guards = self._layout.guards
        return all(
            (self._nothing_of(account.allowance) - shape.total) & guards == guards
            for account in self.of(session.scopes)
            if self._closed.get(account, session.priority + 1) <= session.priority
        )

    def excess(self, session: PendingSession, shape: Shape) -> Excess | None:
        """Once all is open: the first limit that `session` would exceed, in the order of its scopes."""
        guards, total, scopes = self._layout.guards, shape.total, session.scopes
        least = self.leasts.get(scopes)
        if least is None:
            least = self.leasts[scopes] = self._least_of(scopes)
        if (least - total) & guards == guards:
            return None
        exceeded = (each for each in self.of(scopes) if (each.left - total) & guards != guards)
        return self._excess(next(exceeded), shape)

    def _least_of(self, scopes: tuple[str, ...]) -> int:
        """Field by field the least that these have left, with its guards set; less than any request where one has spent all."""
        layout, least = self._layout, self._layout.pack_limit({})
        for account in self.of(scopes):
            if account.left == SPENT:
                return SPENT
            least = layout.lesser(least, account.left ^ layout.guards)
        return least | layout.guards

    def _excess(self, account: Account, shape: Shape) -> Excess:
        allowance = account.allowance
        if allowance.is_spent:
            return Excess(allowance, {}, {}, {})
        asked, left = shape.needs.total, self._layout.unpack(account.left ^ self._layout.guards)
        over = sorted(name for name in allowance.limit if asked[name] > left[name])
        limit = {name: allowance.limit[name] for name in over}
        held = {name: max(limit[name] - left[name], allowance.held.get(name, 0)) for name in over}
        return Excess(allowance, {name: asked[name] for name in over}, held, limit)

    def _nothing_of(self, allowance: Allowance) -> int:
        """None of what it limits."""
        layout = self._layout
        return layout.guards | layout.pack_limit(dict.fromkeys(allowance.limit, 0))

    def _left(self, allowance: Allowance) -> int:
        if allowance.is_spent:
            return SPENT
        layout, limit, held = self._layout, allowance.limit, allowance.held
        used = {name: held[name] for name in limit if name in held} if held else held
        return layout.less(layout.pack_limit(limit), layout.pack_room(used)) | layout.guards
