"""Row locks that others may hold as well: Django's `select_for_update` has the exclusive ones alone."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import cache
from typing import TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection, models

Row = TypeVar("Row", bound=models.Model)


class RowLock(StrEnum):
    """A lock that any number of transactions hold on a row at once, until they end."""

    SHARE = "FOR SHARE"  # who updates, deletes or locks the row waits
    KEY_SHARE = "FOR KEY SHARE"  # who deletes it or locks it FOR UPDATE waits; other updates do not


def lock_by_id(model: type[Row], ids: Collection[int | None], lock: RowLock) -> list[Row]:
    """Return the rows with these ids as they are now, by id, locked until the transaction ends. One query, none for no id."""
    known = [pk for pk in ids if pk is not None]
    return list(model._default_manager.raw(_by_id(model, lock), [known])) if known else []


def lock_rows(
    rows: models.QuerySet[Row], lock: RowLock, *, joined: Sequence[type[models.Model]] = ()
) -> list[Row]:
    """Return the rows of a queryset without select_related as they are now, locked until the transaction ends,
    and with them the rows of `joined` models that it joins. One query.

    PostgreSQL waits for whoever changes one of the locked rows, and looks at its new values. Rows of other
    tables that subqueries of the queryset read are seen as they were when the statement began.
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
