"""Statements that are asked again and again. PostgreSQL parses and plans them once for a connection (`prepared_cursor`); Django says the
querysets that they are made of once in a process (`said`)."""

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
    """What psycopg would do to the text of a statement each time is done once: ours are longer than what it remembers."""

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
        self.connection.execute("DEALLOCATE ALL", prepare=False)  # psycopg forgets them by it
        return super().execute(text, values, prepare=True)

    def _send_query_prepared(self, name: bytes, pgq: Any, **options: Any) -> None:
        super()._send_query_prepared(name, pgq, **options)
        self._query = pgq  # what Django logs


def is_outdated(error: BaseException) -> bool:
    """A statement was prepared before a column that it reads got another type. Outside of a transaction it was asked again at once;
    inside of one all is lost, but forgotten with it as well: whoever begins anew succeeds."""
    cause = error.__cause__ if isinstance(error, NotSupportedError) else error
    return isinstance(cause, FeatureNotSupported) and cause.diag.source_function == "RevalidateCachedQuery"


@cache
def _numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """With PostgreSQL's own placeholders, and the names that they stand for; those without a name in their order."""
    numbers: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        name = found[1] or str(len(numbers))
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = re.sub(r"%(?:\((\w+)\))?s", place, statement)
    return text.replace("%%", "%"), tuple(numbers)


@contextmanager
def prepared_cursor() -> Iterator[Any]:
    """For statements of one constant text, with parameters. Values go to the server beside the text, where each has a type of its own:
    a parameter that stands alone is cast in the statement, and lists are `= ANY(...)`. What is planned is forgotten with the connection,
    where a transaction is rolled back, and where it `is_outdated`."""
    backend: Any = connections[DEFAULT_DB_ALIAS]  # which `connection` would look up for each of these
    backend.close_if_health_check_failed()
    backend.ensure_connection()
    with backend._prepare_cursor(_Prepared(backend.connection)) as cursor:
        yield cursor


def array_of(values: Iterable[object]) -> str:
    """Numbers, ids or other words without quotes, blanks and commas, as PostgreSQL writes an array: psycopg looks at each for what would have to be quoted."""
    return "{" + ",".join([value.hex if isinstance(value, UUID) else str(value) for value in values]) + "}"


def unseen(name: str, kind: str) -> str:
    """A parameter of a prepared statement that is an array, whose length PostgreSQL does not see when it plans: of a short one it finds that a plan
    for its length costs less than the one that it keeps for any, and plans anew each time."""
    return f"(SELECT %({name})s::{kind}[])::{kind}[]"


def parameter(name: str, kind: str) -> Any:
    """Stands in a queryset for a value that is known when the statement is asked."""
    return RawSQL(f"%({name})s::{kind}", ())  # noqa: S611 -- both are words of ours


def among(ids: Iterable[UUID]) -> Any:
    """For `pk__in=among(ids)`: one value, where a list would be one for each of them, read one by one by Django, psycopg and PostgreSQL."""
    return RawSQL("SELECT unnest(%s::uuid[])", [list(ids)])


def said(rows: models.QuerySet[Any], columns: Sequence[str]) -> str:
    """These columns of a queryset of `parameter`s, as SQL. It has no other values than numbers and plain words."""
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
    """All columns of its rows, as `instance_of` reads them."""
    return tuple(field.attname for field in model._meta.concrete_fields)


def instance_of(model: type[Row], values: Sequence[Any]) -> Row | None:
    """The row that a statement read; None where an outer join found none."""
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
