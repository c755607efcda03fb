"""bin/down: stops a running portal; with --purge it removes every trace."""

import argparse
import os
import signal
import sys
import time

from portal.ops.console import speaker
from portal.ops.errors import PreflightFailed
from portal.ops.locks import holder
from portal.ops.paths import Layout, find_layout
from portal.ops.processes import stop_leftovers
from portal.ops.setup.purge import purge

STOP_LIMIT_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bin/down", description="Stop Berth. Sessions and the engine keep running."
    )
    parser.add_argument(
        "--data", metavar="DIR", help="the data directory that bin/up was given (default: var)"
    )
    parser.add_argument(
        "--purge",
        action="store_true",
        help="remove everything for good: accounts, folders and their files, sessions, images, what was built; "
        "of a portal with the role web or worker, what is on this machine alone",
    )
    options = parser.parse_args()
    layout, say = find_layout(options.data), speaker("down")
    try:
        was_running = stop(layout)
    except PermissionError:
        say("Another user runs this Berth. Stop it as that user, or as root.")
        return 1
    say("stopped" if was_running else "was not running")
    if options.purge:
        try:
            purge(layout, say)
        except PreflightFailed as fault:
            say(f"{fault.message}\nfix: {fault.fix}")
            return 1
        say("purged")
    return 0


def stop(layout: Layout) -> bool:
    """Stop the supervisor; kill it if it takes too long. Return True if anything ran."""
    pid = holder(layout)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        give_up_at = time.monotonic() + STOP_LIMIT_S
        while holder(layout) == pid:
            if time.monotonic() > give_up_at:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
    return bool(stop_leftovers(layout.data)) or pid is not None


if __name__ == "__main__":
    sys.exit(main())
