"""A short run of `bin/faults chaos`: random operations by workers that are killed."""

import random
import re
import subprocess
import sys

import pytest

from portal.ops.paths import CHECKOUT
from tests.width import IS_WIDE, times

LONGEST_S = 600
LEAST = times(10, wide=30)  # where the machine is busy
pytestmark = [pytest.mark.faults, pytest.mark.timeout(LONGEST_S + 60)]  # what the run said until then is told


def test_nothing_is_over_allocated_exceeded_lost_doubled_or_stuck() -> None:
    seed = random.randrange(10**6) if IS_WIDE else 7
    length = ("--workers", "4", "--seconds", "60") if IS_WIDE else ("--workers", "2", "--seconds", "10")
    # On a busy machine so few calls are done in that time that nobody would be killed.
    asked = (*length, "--operations", "20000", "--seed", str(seed), "--kill-every", "2", "--kills", "2")
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *asked],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout}{done.stderr}"
    assert " 0 processes killed" not in done.stdout
    [operations] = re.findall(r"(\d+) operations in", done.stdout)
    assert int(operations) >= LEAST, done.stdout
