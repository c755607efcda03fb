"""Prepared statements outlive a change of what they read, and arrays are written as PostgreSQL reads them."""

from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
from django.db import NotSupportedError, connection, transaction

from accounts.limits import write_within_limits
from common.db.prepared import array_of, is_outdated, prepared_cursor, unseen

READ = "SELECT word FROM changing WHERE number = %s"


@pytest.fixture
def alter(transactional_db: None) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of somebody else, who changes the table."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE changing (number integer, word varchar(10))")
        cursor.execute("INSERT INTO changing VALUES (1, 'one')")
    wanted = connection.get_connection_params()
    with psycopg.connect(
        **{name: wanted[name] for name in ("dbname", "user", "password", "host", "port")}, autocommit=True
    ) as other:
        yield other
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE changing")


def read() -> str:
    with prepared_cursor() as cursor:
        cursor.execute(READ, [1])
        return str(cursor.fetchone()[0])


def test_a_statement_is_asked_again_when_a_column_got_another_type(
    alter: psycopg.Connection[tuple[object, ...]],
) -> None:
    assert read() == "one"
    alter.execute("ALTER TABLE changing ALTER COLUMN word TYPE varchar(20)")
    assert read() == "one"
    alter.execute("ALTER TABLE changing ALTER COLUMN word TYPE text")
    assert read() == "one"


def test_in_a_transaction_it_fails_once(alter: psycopg.Connection[tuple[object, ...]]) -> None:
    assert read() == "one"
    alter.execute("ALTER TABLE changing ALTER COLUMN word TYPE varchar(20)")
    with pytest.raises(NotSupportedError) as refused, transaction.atomic():
        read()
    assert is_outdated(refused.value)
    with transaction.atomic():
        assert read() == "one"


@pytest.mark.parametrize("is_inside", [False, True])
def test_what_is_written_within_limits_is_written_again(
    alter: psycopg.Connection[tuple[object, ...]], is_inside: bool
) -> None:
    assert read() == "one"
    alter.execute("ALTER TABLE changing ALTER COLUMN word TYPE varchar(20)")
    if not is_inside:
        assert write_within_limits(read) == "one"
        return
    with transaction.atomic():
        assert write_within_limits(read) == "one"


@pytest.mark.django_db
def test_other_refusals_are_no_outdated_statements() -> None:
    with pytest.raises(NotSupportedError) as refused, transaction.atomic(), prepared_cursor() as cursor:
        cursor.execute("SELECT count(*) FROM accounts_user FOR UPDATE")
    assert not is_outdated(refused.value)
    assert not is_outdated(ValueError("cached plan"))


@pytest.mark.django_db
def test_arrays_of_ids_and_numbers_are_read_as_they_are() -> None:
    ids = [UUID(int=1), UUID(int=2**127)]
    with prepared_cursor() as cursor:
        cursor.execute(
            "SELECT %s::uuid[], %s::bigint[], %s::int[]", [array_of(ids), array_of([2**40]), array_of(())]
        )
        assert cursor.fetchone() == (ids, [2**40], [])


@pytest.mark.django_db
@pytest.mark.parametrize(("array", "is_kept"), [("%(ids)s::int[]", False), (unseen("ids", "int"), True)])
def test_a_plan_for_short_arrays_is_kept_where_their_length_is_not_seen(array: str, is_kept: bool) -> None:
    """PostgreSQL tries five times what a plan of its own costs each time."""
    statement = f"SELECT number FROM many WHERE number = ANY({array}) AND word = %(word)s"
    with prepared_cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE many (number int PRIMARY KEY, word text) ON COMMIT DROP")
        cursor.execute("INSERT INTO many SELECT number, 'word' FROM generate_series(1, 10000) AS number")
        cursor.execute("ANALYZE many")
        for _ in range(7):
            cursor.execute(statement, {"ids": array_of([42]), "word": "word"})
            assert cursor.fetchall() == [(42,)]
        cursor.execute(
            "SELECT generic_plans > 0 FROM pg_prepared_statements WHERE statement LIKE 'SELECT number FROM many%%'"
        )
        assert cursor.fetchall() == [(is_kept,)]
