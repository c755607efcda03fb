"""Room of an agent that a pass keeps for one session, and what it has taken from others."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from scheduler.engine.accelerators import Share

Until = datetime | None  # at the latest; None: nobody knows
End = tuple[datetime, int]  # when something ends, and how much it gives back
# On which agent (ordinal), how much, until when, whether of what is open to all.
Taken = tuple[int, int, Until, bool]


class Ended(NamedTuple):
    """What is given back on an agent, less devices that others share with it, and the shares of such."""

    held: int
    shares: tuple[Share, ...]


@dataclass(slots=True)
class Kept:
    """An agent of which part is kept: what is free at all, what will be free beside the session for which it is kept, when
    that will start, and its priority. Open to all is the lesser of the two amounts."""

    free: int
    beside: int
    until: Until
    priority: int

    def take(self, request: int) -> None:
        """Of what is open to all."""
        self.free -= request
        self.beside -= request
