"""How far tests look: the usual run asks less often than `bin/test --all`, which sets
`BERTH_TESTS_WIDE`.
"""

import os

IS_WIDE = bool(os.environ.get("BERTH_TESTS_WIDE"))


def times(usual: int, *, wide: int) -> int:
    """Return how often a test repeats its question in this run."""
    return wide if IS_WIDE else usual
