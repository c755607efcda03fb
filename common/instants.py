"""Instants in rows, for those who move them along when the clock is set (`sessions_app.clock_steps`)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Case, DateTimeField, F, Q, When
from django.db.models.expressions import Combinable

AHEAD = timedelta(seconds=20)
"""So far in the future may an instant be that was written now: when a stop is due, or by a clock that is a little ahead."""


@dataclass(frozen=True, slots=True)
class Step:
    """The clock was set by `by` within the last `unseen`, a length by the steady clock; it is `now` by the new one."""

    by: timedelta
    now: datetime
    unseen: timedelta

    def is_since(self, name: str) -> Q:
        """That this instant was written by the new clock."""
        return Q(**{f"{name}__gt": self.now - self.unseen, f"{name}__lte": self.now + AHEAD})

    def moves(self, name: str, *, unless: Q | None = None) -> Combinable:
        """The value of an UPDATE: moved along, unless it was written by the new clock."""
        return Case(
            When(self.is_since(name) if unless is None else unless, then=F(name)),
            default=F(name) + self.by,
            output_field=DateTimeField(),
        )
