"""Lists reach PostgreSQL unchanged, for any content."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

pytestmark = pytest.mark.django_db
IDS = [UUID(int=0), uuid4(), uuid4()]
LISTS = [
    ("uuid", IDS),
    ("uuid", [*IDS, None]),
    ("bigint", [0, -1, 2**62]),
    ("bigint", [None, 1]),
    ("boolean", [True, False]),
    ("text", ["", "NULL", "null", " a ", "{a,b}", "a,b", 'say "a"', "back\\slash\\", '\\"', "éü한", "'; --", "%s", "\n\t"]),
    ("text", ["a", None]),
    ("text", []),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), LISTS)
def test_lists_come_back_as_they_went(kind: str, values: list[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT %s::{kind}[]", [values])
        assert cursor.fetchone()[0] == values


def test_a_text_that_postgresql_does_not_take_is_refused() -> None:
    with connection.cursor() as cursor, pytest.raises(Exception, match=r"NUL|0x00"):
        cursor.execute("SELECT %s::text[]", [["a", "b\0c"]])
