"""Encode a snapshot as compressed JSON, column by column, by the type annotations of the engine's
values, and decode it. Pure.

A field added to the engine later is handled without a change here if it has a default, as older
snapshots lack it.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine import Requirements, Snapshot

FORMAT = 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
UUID_DIGITS = 32
# Fields that had another name when the first snapshots were stored.
STORED_NAMES = {
    "accumulation": "gathered",
    "allocated": "held",
    "expected_ends": "expected",
    "group_hosts": "companions",
    "is_being_preempted": "is_leaving",
    "is_exhausted": "is_spent",
    "max_priority": "up_to",
    "max_runtime": "lasts",
    "min_runtime": "after",
    "past_share": "lately",
    "placement_group": "companions",
    "preemption_claim": "promised",
    "quotas": "allowances",
    "real_capacity": "real",
    "requirements": "needs",
}
QUICK = 1  # compression level: better ones take twice the time and save a tenth


class UnreadableSnapshot(ValueError):
    """The bytes have an unknown format, or are damaged."""


class _Codec(NamedTuple):
    """Encode many values of one type as JSON, in order, and decode them given their number."""

    write: Callable[[Sequence[Any]], Any]
    read: Callable[[Any, int], list[Any]]


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot; `unpack_snapshot` returns an equal one."""
    whole = {"format": FORMAT, "snapshot": _codec(Snapshot).write([snapshot])}
    return zlib.compress(json.dumps(whole, separators=(",", ":")).encode(), QUICK)


def unpack_snapshot(picture: bytes) -> Snapshot:
    """Decode a snapshot. Raises UnreadableSnapshot."""
    try:
        whole = json.loads(zlib.decompress(picture))
        if whole["format"] != FORMAT:
            raise UnreadableSnapshot(f"Format {whole['format']} is not {FORMAT}.")
        [snapshot] = _codec(Snapshot).read(whole["snapshot"], 1)
    except (zlib.error, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise UnreadableSnapshot(str(error)) from error
    assert isinstance(snapshot, Snapshot)
    return snapshot


@cache
def _codec(wanted: Any) -> _Codec:
    """Return the codec for an annotated type."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        [present] = [each for each in arguments if each is not type(None)]
        return _optional(_codec(present))
    if origin is tuple:
        return _tuples(_codec(arguments[0]), are_shared=arguments[0] is str)
    if origin is frozenset:
        return _sets(_codec(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mappings(_codec(arguments[1]))
    if _is_record(wanted):
        return _records(wanted)
    return _scalars(wanted)


def _scalars(wanted: Any) -> _Codec:
    if wanted is UUID:
        return _Codec(lambda values: "".join([value.hex for value in values]), _uuids)
    if wanted is datetime:
        return _each(lambda value: (value - EPOCH) // MICROSECOND, lambda kept: EPOCH + kept * MICROSECOND)
    if wanted is timedelta:
        return _each(lambda value: value // MICROSECOND, lambda kept: kept * MICROSECOND)
    if wanted is ResourceSlots:
        return _shared(_each(ResourceSlots.to_json, ResourceSlots))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _each(lambda value: value.value, wanted)
    if wanted in (str, int, float, bool):
        return _each(lambda value: value, lambda kept: kept)
    raise TypeError(f"Pictures know no values of {wanted}.")


def _uuids(kept: str, count: int) -> list[UUID]:
    return [UUID(kept[at : at + UUID_DIGITS]) for at in range(0, count * UUID_DIGITS, UUID_DIGITS)]


def _each(write: Callable[[Any], Any], read: Callable[[Any], Any]) -> _Codec:
    return _Codec(
        lambda values: [write(value) for value in values],
        lambda kept, _count: [read(value) for value in kept],
    )


def _optional(present: _Codec) -> _Codec:
    """Encode optional values as flags and the present values."""

    def write(values: Sequence[Any]) -> Any:
        are_there = [value is not None for value in values]
        there = [value for value in values if value is not None]
        return {"there": "all" if all(are_there) else are_there, "values": present.write(there)}

    def read(kept: Any, count: int) -> list[Any]:
        are_there = [True] * count if kept["there"] == "all" else kept["there"]
        values = iter(present.read(kept["values"], sum(are_there)))
        return [next(values) if is_there else None for is_there in are_there]

    return _Codec(write, read)


def _tuples(item: _Codec, *, are_shared: bool) -> _Codec:
    """Encode tuples as their lengths and one list of all items."""

    def write(values: Sequence[Any]) -> Any:
        items = [each for value in values for each in value]
        return {"lengths": [len(value) for value in values], "items": item.write(items)}

    def read(kept: Any, _count: int) -> list[Any]:
        lengths = kept["lengths"]
        items = iter(item.read(kept["items"], sum(lengths)))
        return [tuple([next(items) for _ in range(length)]) for length in lengths]

    codec = _Codec(write, read)
    return _shared(codec) if are_shared else codec


def _sets(item: _Codec) -> _Codec:
    """Encode sets as sorted tuples, each distinct one once."""
    ordered = _tuples(item, are_shared=False)

    def write(values: Sequence[Any]) -> Any:
        return ordered.write([sorted(value) for value in values])

    def read(kept: Any, count: int) -> list[Any]:
        return [frozenset(value) for value in ordered.read(kept, count)]

    return _shared(_Codec(write, read))


def _mappings(value_codec: _Codec) -> _Codec:
    def write(values: Sequence[Any]) -> Any:
        amounts = [each for value in values for each in value.values()]
        return {"keys": [list(value) for value in values], "values": value_codec.write(amounts)}

    def read(kept: Any, _count: int) -> list[Any]:
        amounts = iter(value_codec.read(kept["values"], sum(map(len, kept["keys"]))))
        return [{key: next(amounts) for key in keys} for keys in kept["keys"]]

    return _Codec(write, read)


def _shared(codec: _Codec) -> _Codec:
    """Encode each distinct value once; decoded equal values are one object, which lets the engine
    reuse its work.
    """

    def write(values: Sequence[Any]) -> Any:
        numbers: dict[Any, int] = {}
        at = [numbers.setdefault(value, len(numbers)) for value in values]
        return {"values": codec.write(list(numbers)), "count": len(numbers), "at": at}

    def read(kept: Any, _count: int) -> list[Any]:
        values = codec.read(kept["values"], kept["count"])
        return [values[number] for number in kept["at"]]

    return _Codec(write, read)


def _records(kind: Any) -> _Codec:
    """Encode dataclasses and named tuples field by field. Sessions with equal needs share one
    object.
    """
    hints = get_type_hints(kind)

    stored = {name: STORED_NAMES.get(name, name) for name in _names(kind)}

    def write(values: Sequence[Any]) -> Any:
        return {
            key: _codec(hints[name]).write([getattr(value, name) for value in values])
            for name, key in stored.items()
        }

    def read(kept: Any, count: int) -> list[Any]:
        columns = {
            name: _codec(hints[name]).read(kept[key], count) for name, key in stored.items() if key in kept
        }
        return [
            kind(**dict(zip(columns, found, strict=True))) for found in zip(*columns.values(), strict=True)
        ]

    codec = _Codec(write, read)
    return _shared(codec) if kind is Requirements else codec


def _names(kind: Any) -> Iterable[str]:
    return [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields


def _is_record(wanted: Any) -> bool:
    return isinstance(wanted, type) and (is_dataclass(wanted) or hasattr(wanted, "_fields"))
