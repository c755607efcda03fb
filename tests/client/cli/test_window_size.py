"""Size of the terminal that `berth` gives to a remote command."""

import fcntl
import os
import struct
import subprocess
import sys
import termios

import pytest

ASKING = "from berth.cli.terminal import window_size; print(*window_size())"


@pytest.mark.parametrize(
    ("window", "told"),
    [((100, 30), "100 30"), ((0, 0), "81 25")],
    ids=["the window's own", "a serial line knows none"],
)
def test_the_window_s_own_size_counts_before_what_the_environment_says(
    window: tuple[int, int], told: str
) -> None:
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", window[1], window[0], 0, 0))
        environment = os.environ | {"COLUMNS": "81", "LINES": "25"}
        asked = [sys.executable, "-c", ASKING]
        assert subprocess.check_output(asked, stdin=theirs, env=environment, text=True).strip() == told
    finally:
        os.close(ours)
        os.close(theirs)
