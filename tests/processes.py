"""Finding a process of a portal under test, to look at or to kill.

None means that there is none. It is never 0, which `os.kill` takes for the whole process group: ours, with pytest and
whatever started it.
"""

from contextlib import suppress
from pathlib import Path

from portal.ops.processes import marked_processes


def process_of(data: Path, part: str) -> int | None:
    """The process of the portal at `data` whose command line holds `part`."""
    for pid in marked_processes(data):
        with suppress(OSError):  # it ended meanwhile
            if part in Path(f"/proc/{pid}/cmdline").read_text():
                return pid
    return None
