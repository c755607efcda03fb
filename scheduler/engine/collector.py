"""Suspend garbage collection during a pass.

A pass makes tens of thousands of small objects that live as long as its plan, and hardly any
garbage; repeated collections would take a third of the time of a long pass.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Disable garbage collection in all threads; restore the previous state at the end.

    If passes of two threads overlap, the first to end enables it again, which only costs time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
