"""Run one bench and print its table. Exit code 1: a target is missed; 2: nothing was measured."""

import argparse
import importlib
import signal
import sys
from pathlib import Path

from portal.ops.paths import find_layout
from tests.bench.frame import Options, as_json, as_table

BENCHES = (
    "accelerators",
    "gateway",
    "heartbeats",
    "terminal",
    "start",
    "revocation",
    "memory",
    "pages",
    "tenants",
    "live",
    "lives",
    "scheduler",
    "measuring",
    "submit",
    "cluster",
    "folders",
    "directories",
)
WITH_ROWS_OF_ITS_OWN = {
    "accelerators",
    "cluster",
    "directories",
    "folders",
    "gateway",
    "heartbeats",
    "lives",
    "measuring",
    "pages",
    "revocation",
    "submit",
    "tenants",
    "terminal",
}
ROUNDS = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument("bench", choices=BENCHES)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers here too")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="measure the portal that runs on this data directory (live, start, memory)",
    )
    parser.add_argument(
        "--rounds", type=count, default=ROUNDS, help="turns of ours and the peer (default: 5)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only measures whose name holds this")
    parser.add_argument(
        "--with-peer", action="store_true", help="install the published Backend.AI and run its scheduler too"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up on SIGTERM too
    options = Options(
        layout=find_layout(given.data),
        is_given=bool(given.data),
        rounds=given.rounds,
        only=given.only,
        with_peer=given.with_peer,
    )
    if given.bench in WITH_ROWS_OF_ITS_OWN:
        importlib.import_module("tests.bench.own_django")
    rows = importlib.import_module(f"tests.bench.{given.bench}").bench(options)
    if not rows:
        there_are = "".join(f"\n  {name}" for name in options.offered)
        parser.error(f'no measure of {given.bench} has "{given.only}" in its name; there are:{there_are}')
    print(as_table(given.bench, rows))
    if given.json:
        given.json.write_text(as_json(given.bench, rows))
    return int(any(row.holds is False for row in rows))


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("one is the least")
    return number


if __name__ == "__main__":
    sys.exit(main())
