"""Prepared statements: planned once per connection by PostgreSQL (`prepared_cursor`), and compiled
from querysets once per process (`said`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connection, connections, models
from django.db.models.expressions import RawSQL
from psycopg import RawCursor
from psycopg.errors import FeatureNotSupported
from psycopg.pq import TransactionStatus

Row = TypeVar("Row", bound=models.Model)


class _Prepared(RawCursor[Any]):
    """Cursor that converts placeholders once per statement and always prepares it; psycopg's own
    cache does not keep statements of this length.
    """

    def execute(self, query: Any, params: Any = None, **_: Any) -> Self:
        text, names = _numbered(query)
        values = [params[name] for name in names] if isinstance(params, Mapping) else params
        try:
            return super().execute(text, values, prepare=True)
        except FeatureNotSupported as error:
            if (
                not is_outdated(error)
                or self.connection.info.transaction_status is not TransactionStatus.IDLE
            ):
                raise
        self.connection.execute("DEALLOCATE ALL", prepare=False)  # also clears psycopg's record of them
        return super().execute(text, values, prepare=True)

    def _send_query_prepared(self, name: bytes, pgq: Any, **options: Any) -> None:
        super()._send_query_prepared(name, pgq, **options)
        self._query = pgq  # read by Django's logging


def is_outdated(error: BaseException) -> bool:
    """Return True if a statement was prepared before a column changed its type. Outside a
    transaction it was repeated already; inside one, the transaction is lost, and a retry succeeds.
    """
    cause = error.__cause__ if isinstance(error, NotSupportedError) else error
    return isinstance(cause, FeatureNotSupported) and cause.diag.source_function == "RevalidateCachedQuery"


@cache
def _numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with PostgreSQL's placeholders ($1 …), and their parameter names;
    unnamed ones in order.
    """
    numbers: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        name = found[1] or str(len(numbers))
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = re.sub(r"%(?:\((\w+)\))?s", place, statement)
    return text.replace("%%", "%"), tuple(numbers)


@contextmanager
def prepared_cursor() -> Iterator[Any]:
    """Yield a cursor for statements of constant text with parameters. Values are sent separately
    with inferred types: cast a parameter that stands alone, and use `= ANY(...)` for lists.
    Prepared statements end with the connection, with a rollback, and when outdated (`is_outdated`).
    """
    backend: Any = connections[DEFAULT_DB_ALIAS]  # `connection` would look it up for each access
    backend.close_if_health_check_failed()
    backend.ensure_connection()
    with backend._prepare_cursor(_Prepared(backend.connection)) as cursor:
        yield cursor


def array_of(values: Iterable[object]) -> str:
    """Return a PostgreSQL array literal of numbers, ids, or words without quotes, blanks and
    commas. Faster than psycopg, which checks each element for quoting.
    """
    return "{" + ",".join([value.hex if isinstance(value, UUID) else str(value) for value in values]) + "}"


def unseen(name: str, kind: str) -> str:
    """Return an array parameter hidden behind a sub-select. Otherwise PostgreSQL sees the array's
    length, prefers a custom plan for short arrays, and re-plans on every call.
    """
    return f"(SELECT %({name})s::{kind}[])::{kind}[]"


def parameter(name: str, kind: str) -> Any:
    """Return a queryset expression for a value that is bound when the statement runs."""
    return RawSQL(f"%({name})s::{kind}", ())  # noqa: S611 -- both are words of ours


def among(ids: Iterable[UUID]) -> Any:
    """Return the value for `pk__in=…`: one array parameter instead of one parameter per id."""
    return RawSQL("SELECT unnest(%s::uuid[])", [list(ids)])


def said(rows: models.QuerySet[Any], columns: Sequence[str]) -> str:
    """Return the SQL of these columns of a queryset with `parameter`s. Other constants may only be
    numbers and plain words.
    """
    sql, constants = rows.values_list(*columns).query.sql_with_params()
    words = iter(constants)
    return re.sub("%s", lambda _: _literal(next(words)), sql)


def _literal(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if not re.fullmatch(r"[a-z_]*", value):
        raise ValueError(f"{value!r} is no plain word.")
    return f"'{value}'"


@cache
def columns_of(model: type[models.Model]) -> tuple[str, ...]:
    """Return all column names of the model, in the order of `instance_of`."""
    return tuple(field.attname for field in model._meta.concrete_fields)


def instance_of(model: type[Row], values: Sequence[Any]) -> Row | None:
    """Return a model instance from the values of `columns_of`; None if an
    outer join found no row.
    """
    if values[0] is None:
        return None
    read = [
        value if reader is None else reader(value, None, connection)
        for value, reader in zip(values, _readers_of(model), strict=True)
    ]
    return model.from_db(connection.alias, columns_of(model), read)


@cache
def _readers_of(model: type[models.Model]) -> tuple[Any, ...]:
    return tuple(getattr(field, "from_db_value", None) for field in model._meta.concrete_fields)
