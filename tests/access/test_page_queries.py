"""How many queries each page takes, as written down in page_queries.txt: more would be noticed here, and fewer must be
written down, so that the number only falls."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.access.matrix import PAGES, parse
from tests.access.test_matrix import ask
from tests.access.world import World

FILE = Path(__file__).with_name("page_queries.txt")
COLUMNS = ("owner", "superadmin")
HEAD = "# Queries of each page for the owner of a session, and for a superadmin. Written by hand from what the test says."


def written_down() -> dict[str, tuple[int, ...]]:
    if not FILE.exists():
        return {}
    lines = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return {route: tuple(map(int, counts)) for route, *counts in lines}


def as_text(counts: dict[str, tuple[int, ...]]) -> str:
    lines = [f"{route:24}{owner:4}{superadmin:4}" for route, (owner, superadmin) in sorted(counts.items())]
    return "\n".join((HEAD, *lines, ""))


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("empty_redis")
def test_every_page_takes_as_many_queries_as_written_down(world: World) -> None:
    taken = {}
    for row in parse(PAGES):
        if row.method == "GET" and row.cells["owner"] == row.cells["superadmin"] == "200":
            taken[row.route] = tuple(queries_of(world, row, column) for column in COLUMNS)

    assert taken == written_down(), f"{FILE.name} should say:\n{as_text(taken)}"


def queries_of(world: World, row: object, column: str) -> int:
    """Of the second request: the first fills caches."""
    ask(world, row, column)  # type: ignore[arg-type]
    with CaptureQueriesContext(connection) as queries:
        ask(world, row, column)  # type: ignore[arg-type]
    return sum("SAVEPOINT" not in query["sql"] for query in queries.captured_queries)
