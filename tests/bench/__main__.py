"""bin/bench: runs one measurement against the portal of a data directory. Standard library alone."""

import argparse
import json
import sys
from pathlib import Path

from portal.ops.layout import layout_of
from tests.bench import memory, start

MEASUREMENTS = {"memory": memory.measure, "start": start.measure}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument("measurement", choices=sorted(MEASUREMENTS))
    parser.add_argument("--data", metavar="DIR", help="data directory of the running portal (default: var)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    numbers = MEASUREMENTS[options.measurement](layout_of(options.data))
    for name, value in numbers.items():
        print(f"{name:<40} {value}")
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
