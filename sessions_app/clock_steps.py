"""Somebody set the clock of this machine, or it slept: instants that were written before move along, for nothing has had its time."""

from datetime import timedelta

import structlog
from django.db import transaction

from agents.services import shift_instants
from common import clock
from common.cache import forget_what_was_asked
from common.models import ClockReading
from sessions_app import callbacks, idle, lifecycle, metrics, preemptions

log = structlog.get_logger(__name__)


@transaction.atomic
def follow_the_clock() -> bool:
    """Whether the clock was set since the last look. What it says now is written down with all that moves: who dies over it has
    moved nothing, and two that look at the same moment move it once."""
    machine = clock.machine_id()
    known = ClockReading.objects.select_for_update().filter(machine=machine).first()
    if known is None:
        ClockReading.objects.get_or_create(machine=machine, defaults={"ahead_s": clock.reading()})
        return False
    step = clock.step_since(known.ahead_s)
    if not step:
        return False
    log.warning("clock.was_set", seconds=step.total_seconds())
    known.ahead_s += step.total_seconds()
    known.save(update_fields=["ahead_s"])
    _shift(step)
    return True


def _shift(step: timedelta) -> None:
    """Everything once, in the order of locks (ADR 8)."""
    now = clock.now()
    forget_what_was_asked()
    lifecycle.shift_deadlines(step)
    idle.shift_instants(step, now)
    preemptions.shift_instants(step, now)
    callbacks.shift_instants(step)
    metrics.forget_what_is_to_come(now)
    shift_instants(step)
