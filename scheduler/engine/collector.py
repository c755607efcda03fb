"""A pass makes tens of thousands of small objects that live as long as its plan, and hardly any garbage. Python's collector would
stop again and again to look for some among all of them, and among all of the snapshot: a third of the time of a long pass."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Meanwhile nothing is collected, in any thread; afterwards the collector is as it was, and catches up.

    Where passes of two threads overlap, the first that ends lets the collector go on: that costs the other time alone.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
