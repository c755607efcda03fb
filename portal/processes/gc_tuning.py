"""The garbage collector of processes that live long. What they imported is hundreds of thousands of objects, and a look at all of
them stops every thread for tens of milliseconds."""

import gc

THRESHOLD = 10_000


def leave_startup_to_rest() -> None:
    """What was imported stays for good: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD, 20, 20)
