"""Many rows that differ in little from one that is there: written by one statement, however many."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, models

from common.prepared import prepared_cursor


def copy_rows(
    model: type[models.Model], *, like: Mapping[str, Any], values: Mapping[str, Sequence[Any]]
) -> None:
    """For each row of `model` that has the values of `like`, and for each place of the sequences in `values`: a copy which has
    these values, by field. Keys that are not named are new ones. One statement."""
    fields = {field.attname: field for field in model._meta.concrete_fields if not field.generated}
    quoted = {name: connection.ops.quote_name(str(field.column)) for name, field in fields.items()}
    taken = {
        name: f"copy.{column}" if name in values else f"source.{column}" for name, column in quoted.items()
    }
    taken |= _new_key(model._meta.pk, values)
    columns = [name for name in fields if taken[name]]
    arrays = ", ".join(f"%s::{_type_of(fields[name])}[]" for name in values)
    lists = [_as_written(fields[name], column) for name, column in values.items()]
    with prepared_cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO {model._meta.db_table} ({", ".join(quoted[name] for name in columns)})
            SELECT {", ".join(taken[name] for name in columns)}
            FROM {model._meta.db_table} AS source, unnest({arrays}) AS copy ({", ".join(quoted[name] for name in values)})
            WHERE {" AND ".join(f"source.{quoted[name]} = %s" for name in like)}
            """,
            [*lists, *like.values()],
        )


def _as_written(field: Any, column: Sequence[Any]) -> list[Any]:
    """Ids and texts are written as they are; to ask the field of each takes longer than all else."""
    if isinstance(
        getattr(field, "target_field", field), models.UUIDField | models.CharField | models.TextField
    ):
        return list(column)
    return [field.get_db_prep_save(each, connection) for each in column]


def _new_key(key: Any, values: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Where a copy has its key from, if nobody named it; "" for one that the database counts up."""
    if key.attname in values:
        return {}
    return {key.attname: "gen_random_uuid()" if isinstance(key, models.UUIDField) else ""}


def _type_of(field: Any) -> str:
    """Without a length, which would cut what is longer instead of refusing it."""
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    return str(kind).partition("(")[0]
