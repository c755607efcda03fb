"""Fast encoder of Python lists as PostgreSQL arrays. psycopg checks the type and quoting of each
element, which can take longer than the statement itself.
"""

from typing import Any
from uuid import UUID

from psycopg.abc import Buffer
from psycopg.types.array import ListDumper


class PlainListDumper(ListDumper):
    """Encodes lists of UUIDs, integers or texts; all others are left to psycopg. Same output."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        kinds = set(map(type, obj))
        if kinds == {UUID}:
            return f"{{{','.join([each.hex for each in obj])}}}".encode()
        if kinds == {int}:
            return f"{{{','.join(map(str, obj))}}}".encode()
        # PostgreSQL allows no NUL in texts, so it is a safe separator.
        if kinds == {str} and (texts := "\0".join(obj)).count("\0") == len(obj) - 1:
            escaped = texts.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
            return f'{{"{escaped}"}}'.encode()
        return super().dump(obj)
