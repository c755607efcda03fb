"""Budgets and the price list, for administrators."""

from collections.abc import Iterator, Mapping
from typing import Any

from berth.errors import NotFound
from berth.models import Budget, BudgetImpact, Price
from berth.paging import Endpoint, iterate
from berth.policies import scope_id


class Budgets(Endpoint):
    """Budgets, as `client.budgets`."""

    def list(self, *, level: str = "", name: str = "", is_current: bool | None = None) -> Iterator[Budget]:
        """Yield the budgets of the project or user (`level`) called `name`, or all.

        `is_current` None includes budgets whose dates are over or yet to come.
        """
        owner = {level: scope_id(self._transport, level, name)} if name else {}
        current = None if is_current is None else str(is_current).lower()
        return iterate(self._transport, "budgets/", Budget, current=current, **owner)

    def get(self, budget_id: int) -> Budget:
        return self._get(Budget, f"budgets/{budget_id}/")

    def create(self, *, level: str, name: str, **wanted: Any) -> Budget:
        """Create a budget for the project or user (`level`) called `name`.

        `wanted` are fields of the REST API: unit, amount, period, ….
        """
        return self._send(Budget, "POST", "budgets/", self._body(level, name, wanted), is_new=True)

    def foresee(self, *, level: str, name: str, **wanted: Any) -> BudgetImpact:
        """Return the effect that a budget would have, without creating it."""
        return self._send(BudgetImpact, "POST", "budgets/impact/", self._body(level, name, wanted))

    def change(self, budget_id: int, changes: Mapping[str, Any]) -> Budget:
        return self._send(Budget, "PATCH", f"budgets/{budget_id}/", dict(changes))

    def foresee_change(self, budget_id: int, changes: Mapping[str, Any]) -> BudgetImpact:
        return self._send(BudgetImpact, "POST", f"budgets/{budget_id}/impact/", dict(changes))

    def delete(self, budget_id: int) -> None:
        self._transport.request("DELETE", f"budgets/{budget_id}/")

    def _body(self, level: str, name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return {"level": level, "id": scope_id(self._transport, level, name), **wanted}


class Prices(Endpoint):
    """Price list, as `client.prices`."""

    def list(self, *, slot_name: str = "") -> Iterator[Price]:
        return iterate(self._transport, "prices/", Price, slot_name=slot_name or None)

    def set(self, slot_name: str, *, since: str, per_hour: str) -> Price:
        body = {"slot_name": slot_name, "since": since, "per_hour": per_hour}
        return self._send(Price, "POST", "prices/", body, is_new=True)

    def delete(self, slot_name: str, *, since: str) -> None:
        """Delete the price that starts on the day `since`. Raises NotFound."""
        for price in self.list(slot_name=slot_name):
            if price.since == since:
                self._transport.request("DELETE", f"prices/{price.id}/")
                return
        raise NotFound(
            f"There is no price of “{slot_name[:40]}” from {since[:20]} on.", hint="See: berth price list."
        )
