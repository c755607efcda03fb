"""Decode JSON into frozen dataclasses. Unknown fields stay in `raw`, missing ones take defaults."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from berth.errors import UnexpectedAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of all values that the portal returns. `raw` is the complete JSON object."""

    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


R = TypeVar("R", bound=Record)
T = TypeVar("T")


def decode(kind: type[R], data: object, /, **given: object) -> R:
    """Decode `data` as a `kind`; `given` are fields that the client sets. Raises UnexpectedAnswer."""
    if not isinstance(data, Mapping):
        raise UnexpectedAnswer(f"The portal sent something else than a {kind.__name__}.")
    values: dict[str, Any] = {"raw": data, **given}
    hints: dict[str, Any] = _hints(kind)  # type: ignore[arg-type]
    for wanted in fields(kind):
        if wanted.name in values:
            continue
        if wanted.name in data:
            values[wanted.name] = _convert(hints[wanted.name], data[wanted.name], wanted.name)
        elif wanted.default is MISSING and wanted.default_factory is MISSING:
            raise UnexpectedAnswer(f"The portal sent a {kind.__name__} without “{wanted.name}”.")
    return kind(**values)


def get_field(data: object, name: str, kind: type[T]) -> T:
    """Return the field `name` of `data`. Raises UnexpectedAnswer if absent or of another type."""
    value = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(value, kind):
        raise UnexpectedAnswer(f"The portal sent no “{name}” that is a {kind.__name__}.")
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _convert(hint: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        return _convert(next(part for part in parts if part is not NoneType), value, name)
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(parts[0], item, name) for item in value)
    if origin is Mapping and isinstance(value, Mapping):
        return {key: _convert(parts[1], item, name) for key, item in value.items()}
    if hint is Any:
        return value
    if is_dataclass(hint) and isinstance(hint, type) and issubclass(hint, Record):
        return decode(hint, value)
    if hint is datetime and isinstance(value, str):
        return _instant(value, name)
    if hint is float and isinstance(value, int):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint):
        return value
    raise UnexpectedAnswer(f"The portal sent a “{name}” that is no {getattr(hint, '__name__', hint)}.")


def _instant(value: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError as exc:
        raise UnexpectedAnswer(f"The portal sent a “{name}” that is no point in time.") from exc
