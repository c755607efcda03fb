"""Lists as PostgreSQL reads them, written at once: psycopg asks of each element what it is and whether it has to be quoted, which takes
longer than many a statement that they are for."""

from typing import Any
from uuid import UUID

from psycopg.abc import Buffer
from psycopg.types.array import ListDumper


class PlainListDumper(ListDumper):
    """Writes what psycopg would. Lists of ids, of numbers and of texts alone are plain; all others go its way."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        kinds = set(map(type, obj))
        if kinds == {UUID}:
            return f"{{{','.join([each.hex for each in obj])}}}".encode()
        if kinds == {int}:
            return f"{{{','.join(map(str, obj))}}}".encode()
        # PostgreSQL takes no NUL, so one can stand between them.
        if kinds == {str} and (texts := "\0".join(obj)).count("\0") == len(obj) - 1:
            escaped = texts.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
            return f'{{"{escaped}"}}'.encode()
        return super().dump(obj)
