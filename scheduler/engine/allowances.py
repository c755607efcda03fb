"""What domains, projects, people and tokens may hold, and what they have left while a pass places sessions of theirs."""

from collections.abc import Mapping

from scheduler.engine.model import Allowance, Excess, PendingSession


class Allowances:
    """Counts down as sessions are placed; within a pass what is left only shrinks."""

    def __init__(self, allowances: tuple[Allowance, ...]) -> None:
        self._by_key = {allowance.key: allowance for allowance in allowances}
        self._held = {allowance.key: dict(allowance.held) for allowance in allowances}

    def excess(self, session: PendingSession) -> Excess | None:
        """The first limit that `session` would exceed now, in the order of its scopes; None: it may be placed."""
        scopes = [key for key in session.scopes if key in self._by_key]
        if not scopes:
            return None
        asked = session.asked
        for key in scopes:
            if self._by_key[key].is_spent:
                return Excess(self._by_key[key], {}, {}, {})
            limit, held = self._by_key[key].limit, self._held[key]
            over = [name for name in limit if asked[name] > max(0, limit[name] - held.get(name, 0))]
            if over:
                return Excess(self._by_key[key], _only(over, asked), _only(over, held), _only(over, limit))
        return None

    def take(self, session: PendingSession) -> None:
        for key in session.scopes:
            if key in self._by_key:
                held = self._held[key]
                for name, amount in session.asked.items():
                    held[name] = held.get(name, 0) + amount


def _only(names: list[str], amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amounts.get(name, 0) for name in sorted(names)}
