"""Convert the reservations of a resource group to the engine's windows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from accounts.core.limits import Level
from scheduler.engine import ReservationWindow

LEVELS = (Level.DOMAIN, Level.PROJECT, Level.USER)


@dataclass(frozen=True, slots=True)
class GroupWindows:
    """Reservation windows of a group: the open one and the next one by agent id, and the ids of the
    reservations that a scope may use by scope key.
    """

    open_now: Mapping[int, ReservationWindow] = field(default_factory=dict)
    upcoming: Mapping[int, ReservationWindow] = field(default_factory=dict)
    by_scope: Mapping[str, frozenset[int]] = field(default_factory=dict)


def windows_from(rows: Iterable[Mapping[str, Any]], now: datetime) -> GroupWindows:
    """Make them from the rows of `with_reserved_agents`, ordered by start."""
    open_now: dict[int, ReservationWindow] = {}
    to_come: dict[int, ReservationWindow] = {}
    by_scope: dict[str, set[int]] = {}
    for row in rows:
        window = ReservationWindow(row["reservation"], _instant(row["starts_at"]), _instant(row["ends_at"]))
        if window.starts_at > now:
            to_come.setdefault(row["agent"], window)
        elif window.ends_at > now:
            open_now[row["agent"]] = window
        for level in LEVELS:
            if row[level.value] is not None:
                by_scope.setdefault(f"{level}:{row[level.value]}", set()).add(window.reservation_id)
    return GroupWindows(open_now, to_come, {key: frozenset(ids) for key, ids in by_scope.items()})


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
