"""The one place that asks what time it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_frozen: ContextVar[datetime | None] = ContextVar("frozen_instant", default=None)


def now() -> datetime:
    """The present instant, aware, UTC."""
    return _frozen.get() or datetime.now(UTC)


@contextmanager
def frozen_at(instant: datetime) -> Iterator[None]:
    """Within the block, and this context only, `now()` answers `instant`. For tests."""
    token = _frozen.set(instant)
    try:
        yield
    finally:
        _frozen.reset(token)
