"""Find processes of a portal under test, to inspect or kill them.

Returns None if there is none, never 0: `os.kill` takes 0 for the whole process group, which
includes pytest and its parent.
"""

from contextlib import suppress
from pathlib import Path

from portal.ops.processes import leftover_processes


def process_of(data: Path, part: str) -> int | None:
    """Return the id of the process of the portal at `data` whose command line contains `part`."""
    for pid in leftover_processes(data):
        with suppress(OSError):  # the process ended meanwhile
            if part in Path(f"/proc/{pid}/cmdline").read_text():
                return pid
    return None
