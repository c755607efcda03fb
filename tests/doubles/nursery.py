"""Fork idle processes on request, in place of a chaos run's: `python -m … .nursery SEED`.

Only a signal ends them. Their ids are appended to the file BORN and stay there after their end.
"""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    born: dict[str, int] = {}
    for line in sys.stdin:
        number, _life = line.split()
        if number in born:
            os.waitpid(born[number], 0)
        if child := os.fork():
            born[number] = child
            with Path(os.environ["BORN"]).open("a") as told:
                told.write(f"{child}\n")
            sys.stdout.write(f"born {number} {child}\n")
            sys.stdout.flush()
        else:
            signal.pause()


if __name__ == "__main__":
    main()
