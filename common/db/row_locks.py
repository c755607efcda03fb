"""Shared row locks, which Django's `select_for_update` does not offer."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import cache
from typing import TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection, models

Row = TypeVar("Row", bound=models.Model)


class RowLock(StrEnum):
    """Row lock that several transactions can hold at once, until they end."""

    SHARE = "FOR SHARE"  # blocks updates, deletion and exclusive locks
    KEY_SHARE = "FOR KEY SHARE"  # blocks deletion and FOR UPDATE, but not other updates


def lock_by_id(model: type[Row], ids: Collection[int | None], lock: RowLock) -> list[Row]:
    """Lock the rows with these ids until the transaction ends and return their current state, by
    id. One query, none without ids.
    """
    known = [pk for pk in ids if pk is not None]
    return list(model._default_manager.raw(_by_id(model, lock), [known])) if known else []


def lock_rows(
    rows: models.QuerySet[Row], lock: RowLock, *, joined: Sequence[type[models.Model]] = ()
) -> list[Row]:
    """Lock the rows of a queryset (without select_related), and joined rows of `joined` models,
    until the transaction ends; return their current state. One query.

    PostgreSQL waits for transactions that change a locked row, and reads its new values. Rows of
    other tables in subqueries are read as of the start of the statement.
    """
    try:
        sql, values = rows.query.sql_with_params()
    except EmptyResultSet:
        return []
    locked: list[type[models.Model]] = [rows.model, *joined]
    tables = [connection.ops.quote_name(model._meta.db_table) for model in locked]
    return list(rows.model._default_manager.raw(f"{sql} {lock} OF {', '.join(tables)}", values))


@cache
def _by_id(model: type[models.Model], lock: RowLock) -> str:
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in model._meta.concrete_fields)
    return f"SELECT {columns} FROM {model._meta.db_table} WHERE id = ANY(%s) ORDER BY id {lock}"
