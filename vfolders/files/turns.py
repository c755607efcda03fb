"""Bounds the copies that requests wait for: each holds a thread and a database connection of the web
process until it is done, however slow the storage host is.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from common.errors import TooManyRequests

MOST = 4
"""Copies at a time in each process."""
MOST_OF_USER = 2


class Busy(TooManyRequests):
    """All turns are taken."""

    default_code = "busy"
    http_status = 503


_taken: Counter[int] = Counter()
_guard = Lock()


@contextmanager
def turn(user_id: int) -> Iterator[bool]:
    """Yield True if the user has a turn until the block ends; False if there is none, without waiting."""
    with _guard:
        has_turn = _taken[user_id] < MOST_OF_USER and _taken.total() < MOST
        _taken[user_id] += has_turn
    try:
        yield has_turn
    finally:
        with _guard:
            _taken[user_id] -= has_turn
            if not _taken[user_id]:
                del _taken[user_id]
