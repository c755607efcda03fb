"""Each page takes as many queries as page_queries.txt says; the numbers may only fall."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.access.matrix import PAGES, parse
from tests.access.test_matrix import ask
from tests.access.world import World

FILE = Path(__file__).with_name("page_queries.txt")
COLUMNS = ("owner", "domain_admin", "superadmin")
NOT_THEIRS = "-"
MOST_OF_A_LIST = 13  # of agents: with the present use of their devices
LISTS = (
    "agents", "audit", "budgets", "data", "domains", "images", "invitations", "own-activity", "people", "policies", "prices",
    "projects", "resource-groups", "session-list",
)  # fmt: skip
HEAD = (
    "# Queries of each page for the owner of a session, an admin of the domain, and a superadmin. Written by hand from what\n"
    "# the test says."
)
Counts = dict[str, tuple[str, ...]]


def written_down() -> Counts:
    if not FILE.exists():
        return {}
    lines = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return {route: tuple(counts) for route, *counts in lines}


def as_text(counts: Counts) -> str:
    lines = [f"{route:24}{''.join(f'{count:>4}' for count in its)}" for route, its in sorted(counts.items())]
    return "\n".join((HEAD, *lines, ""))


@pytest.mark.walk
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("empty_redis")
def test_every_page_takes_as_many_queries_as_written_down(world: World) -> None:
    taken = {}
    for row in parse(PAGES):
        if row.method == "GET" and row.cells["superadmin"] == "200":
            taken[row.route] = tuple(
                str(queries_of(world, row, column)) if row.cells[column] == "200" else NOT_THEIRS
                for column in COLUMNS
            )

    assert taken == written_down(), f"{FILE.name} should say:\n{as_text(taken)}"


def test_lists_take_few_queries() -> None:
    counts = [int(count) for route in LISTS for count in written_down()[route] if count != NOT_THEIRS]
    assert max(counts) <= MOST_OF_A_LIST


def queries_of(world: World, row: object, column: str) -> int:
    """Of the second request: the first fills caches."""
    ask(world, row, column)  # type: ignore[arg-type]
    with CaptureQueriesContext(connection) as queries:
        ask(world, row, column)  # type: ignore[arg-type]
    return sum("SAVEPOINT" not in query["sql"] for query in queries.captured_queries)
