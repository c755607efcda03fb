"""Detects jumps of this machine's clock (set, or after sleep) and shifts stored timestamps.

So no deadline passes because of the jump.
"""

from datetime import timedelta

import structlog
from django.db import transaction

from agents.machines import service as agents_service
from common import clock
from common.clock import ClockJump
from common.messaging.cache import delete_deduplication_keys
from common.models import ClockReading
from sessions_app.callbacks import delivery
from sessions_app.idle import enforcer
from sessions_app.lifecycle import transitions
from sessions_app.metrics import collector
from sessions_app.termination import preemption
from vfolders import trash

log = structlog.get_logger(__name__)

LEEWAY = timedelta(seconds=1)


def handle_clock_jump() -> bool:
    """Shift timestamps if the clock jumped since the last call; return True if it did.

    After a move to another machine a jump cannot be detected: the reading starts anew.
    """
    if ClockReading.has_jumped():
        # Before the locks, as it may take long; if the process dies, the next call repeats it.
        delete_deduplication_keys()
        collector.delete_future_samples(clock.now())
    return _compare_reading()


@transaction.atomic
def _compare_reading() -> bool:
    """Shift timestamps if the clock differs from the stored reading; store the new one.

    Returns True on a jump. One transaction: a crash has shifted nothing, and two concurrent calls
    shift once.
    """
    said = {"machine": clock.machine_id(), "ahead_s": clock.clock_offset(), "looked_at_s": clock.monotonic()}
    last, is_first = ClockReading.objects.select_for_update().get_or_create(pk=1, defaults=said)
    if is_first:
        return False
    by = clock.jump_since(last.ahead_s) if last.machine == said["machine"] else None
    if by:
        log.warning("clock.was_set", seconds=by.total_seconds())
        unseen = timedelta(seconds=clock.monotonic() - last.looked_at_s) + LEEWAY
        _shift(ClockJump(by, clock.now(), unseen))
    if by is not None:  # differences too small for a jump add up
        said["ahead_s"] = last.ahead_s + by.total_seconds()
    ClockReading.objects.filter(pk=1).update(**said)
    return bool(by)


def _shift(step: ClockJump) -> None:
    """Shift all timestamps once, in lock order (ADR 8)."""
    trash.shift_timestamps(step)
    transitions.shift_timestamps(step)
    enforcer.shift_timestamps(step)
    preemption.shift_timestamps(step)
    delivery.shift_timestamps(step)
    agents_service.shift_timestamps(step)
