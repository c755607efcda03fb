"""Budgets as pages show them to whom they bind."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from accounts.budgeting import UNITS
from accounts.quota import Level
from accounts.spending import BudgetState, rounded
from common.looks import Tone

FULL = 100


def budget_rows(states: Iterable[BudgetState]) -> list[dict[str, Any]]:
    """What includes/budgets.html shows."""
    return [_row(state) for state in states]


def _row(state: BudgetState) -> dict[str, Any]:
    percent = min(FULL, int(state.spent * FULL / int(state.amount))) if state.amount >= 1 else FULL
    tone = Tone.BAD if state.is_used_up else Tone.WARN if state.is_nearly_used_up else Tone.BUSY
    return {
        "title": _(UNITS[state.unit]),
        "owner": _("The project “{name}”").format(name=state.owner)
        if state.level is Level.PROJECT
        else state.owner,
        "used": str(rounded(state.spent)),
        "left": str(rounded(state.left)),
        "amount": str(state.amount),
        "percent": percent,
        "tone": tone,
        "is_hard": state.is_hard,
        "is_used_up": state.is_used_up,
        "is_nearly_used_up": state.is_nearly_used_up,
        "last_day": state.end - timedelta(days=1),
    }
