"""Everything at once, at random, by workers that are killed: a short run of `bin/faults chaos`."""

import re
import subprocess
import sys

import pytest

from portal.ops.layout import CHECKOUT

LONGEST_S = 600
LEAST = 30  # where the machine is busy
pytestmark = [pytest.mark.faults, pytest.mark.timeout(LONGEST_S + 60)]  # what the run said until then is told


def test_nothing_is_over_allocated_exceeded_lost_doubled_or_stuck() -> None:
    asked = ("--operations", "20000", "--seconds", "30", "--seed", "7", "--kill-every", "2")
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *asked],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 processes killed" not in done.stdout
    [operations] = re.findall(r"(\d+) operations in", done.stdout)
    assert int(operations) >= LEAST, done.stdout
