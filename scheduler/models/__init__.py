"""Tables of the scheduler."""

from scheduler.models.fairness import LEAST_WEIGHT, MOST_WEIGHT, DecayedUse, SchedulerState, ShareWeight
from scheduler.models.tick import KeptTick, WaitingReason

__all__ = [
    "LEAST_WEIGHT",
    "MOST_WEIGHT",
    "DecayedUse",
    "KeptTick",
    "SchedulerState",
    "ShareWeight",
    "WaitingReason",
]
