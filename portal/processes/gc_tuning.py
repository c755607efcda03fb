"""Tunes garbage collection of long-running processes. Imports create hundreds of thousands of
objects, and a full collection stops every thread for tens of milliseconds.
"""

import gc

THRESHOLD = 10_000


def freeze_startup_objects() -> None:
    """Exclude all present objects from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD, 20, 20)
