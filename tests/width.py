"""Choose how often tests repeat a check: more in `bin/test --all`,
which sets `BERTH_TESTS_WIDE`.
"""

import os

IS_WIDE = bool(os.environ.get("BERTH_TESTS_WIDE"))


def times(usual: int, *, wide: int) -> int:
    """Return the number of repetitions in this run."""
    return wide if IS_WIDE else usual
