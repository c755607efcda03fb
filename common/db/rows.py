"""Rows of SQL that the ORM cannot express."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from django.db import connection

Row = TypeVar("Row", bound=NamedTuple)


def read_rows(row_type: type[Row], statement: str, values: Mapping[str, Any]) -> list[Row]:
    """Run `statement` and return its rows as `row_type`, whose fields are the names of its columns.
    Raises TypeError if they are not.
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        columns = tuple([column.name for column in cursor.description or ()])
        if columns != row_type._fields:
            raise TypeError(f"{row_type.__name__} does not have the columns {columns}.")
        return list(map(row_type._make, cursor.fetchall()))
