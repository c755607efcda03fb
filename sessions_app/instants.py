"""Instants in rows, for those who move them when the clock is set (`clock_steps`)."""

from datetime import datetime, timedelta

from django.db.models import F, Q

ROUND = timedelta(seconds=10)
"""How often the reconciler looks at the clock."""


def is_since(name: str, now: datetime) -> Q:
    """That this instant was written after the clock was set: it is younger than a round, by the new clock."""
    return Q(**{f"{name}__gt": now - ROUND, f"{name}__lte": now + ROUND})


def moved(step: timedelta, *names: str) -> dict[str, object]:
    """Values of an UPDATE."""
    return {name: F(name) + step for name in names}
