"""Declarations of request fields, and the reader and writer of their JSON form. Pure.

A request is a frozen dataclass based on `RequestObject`. The annotation of each attribute declares
its check, JSON Schema, description and command line option. The parser, the REST document and the
examples to copy are derived from these declarations.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass
from functools import cache
from typing import Any, Self, TypeVar, cast

from common.values.text import quoted, shown, unknown_field

T = TypeVar("T")
Problems = dict[str, list[str]]
"""Sentences by path, such as {"mounts.0.folder": [...]}."""
MOST_UNKNOWN = 10
"""Unknown fields reported for one object."""
REQUIRED: Any = object()
"""Default of a field that has none."""
_WHOLE_NUMBER = re.compile(r"[-−]?\d{1,9}\Z", re.ASCII)
TEXT = {"type": "string"}
SWITCH = {"type": "boolean"}


def limited_text(max_length: int) -> dict[str, Any]:
    return {**TEXT, "maxLength": max_length}


def required_text(max_length: int) -> dict[str, Any]:
    return {**TEXT, "minLength": 1, "maxLength": max_length}


def whole_number(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "maximum": most, "minimum": least}


def one_of(values: Iterable[str]) -> dict[str, Any]:
    return {"enum": [str(value) for value in values], **TEXT}


def check_whole_number(value: object, least: int, most: int, sentence: str) -> int | None:
    """Return a number, which forms send as text; None if empty. Raises ValueError with `sentence`."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and _WHOLE_NUMBER.match(text := value.strip()):
        value = int(text.replace("−", "-"))
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(sentence.format(value=quoted(value), least=least, most=most))
    return value


@dataclass(frozen=True, slots=True)
class RequestField:
    """Declaration of one field of a request.

    `check` converts a JSON value; it raises ValueError with a sentence, or InvalidParts. `schema`
    is the JSON Schema of that value, without description, default and null. `option` is the option
    of `berth start` or `berth run`; for a switch, the one that sets the value that is not the
    default. `to_json` is the inverse of `check`. Of a list of objects, only `items` is declared:
    their class.
    """

    check: Callable[[Any], Any]
    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    description: str = ""
    option: str = ""
    to_json: Callable[[Any], Any] = lambda value: value
    items: "type[RequestObject] | None" = None
    default: Any = REQUIRED  # filled in from the dataclass

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


class InvalidParts(ValueError):
    """Parts of a list or object are invalid. `problems` has their paths inside of it."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class RequestObject:
    """Base of a request and of the objects inside of it."""

    @classmethod
    @cache
    def fields(cls) -> Mapping[str, RequestField]:
        """Return the declared fields by name, in order."""
        return {
            attribute.name: dataclasses.replace(
                cast("Any", attribute.type).__metadata__[0],
                default=_default_of(attribute),
            )
            for attribute in dataclasses.fields(cls)
        }

    @classmethod
    def read_fields(cls, raw: Mapping[str, Any]) -> tuple[dict[str, Any], Problems]:
        """Return the values by field, None for an invalid one; and what is wrong."""
        declared = cls.fields()
        unknown = [name for name in list(raw)[:MOST_UNKNOWN] if name not in declared]
        problems = {shown(name): [unknown_field(name, declared)] for name in unknown}
        values = {}
        for name, field in declared.items():
            values[name] = copy(field.default)
            if name in raw or field.is_required:
                values[name] = _read(name, field.check, raw.get(name), problems)
        return values, problems

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Self:
        """Return the object. Raises InvalidParts."""
        values, problems = cls.read_fields(raw)
        if problems:
            raise InvalidParts(problems)
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, without fields that have their default."""
        values = ((name, field, getattr(self, name)) for name, field in self.fields().items())
        return {
            name: [each.to_json() for each in value] if field.items else field.to_json(value)
            for name, field, value in values
            if value != field.default
        }


def read_list(value: object, read: Callable[[Any], T], *, most: int, refusal: str) -> tuple[T, ...]:
    """Return what `read` makes of each item; () for None.

    Raises ValueError with `refusal` unless it is a list of at most `most` items; InvalidParts.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > most:
        raise ValueError(refusal)
    problems: Problems = {}
    found = tuple(_read(str(index), read, item, problems) for index, item in enumerate(value))
    if problems:
        raise InvalidParts(problems)
    return cast("tuple[T, ...]", found)


def _read(path: str, check: Callable[[Any], T], value: object, problems: Problems) -> T | None:
    """Return the checked value; None if it is invalid, with the reason added to `problems`."""
    try:
        return check(value)
    except InvalidParts as error:
        problems.update({f"{path}.{part}": sentences for part, sentences in error.problems.items()})
    except ValueError as error:
        problems.setdefault(path, []).append(str(error))
    return None


def _default_of(attribute: dataclasses.Field[Any]) -> Any:
    if attribute.default_factory is not MISSING:
        return attribute.default_factory()
    return REQUIRED if attribute.default is MISSING else attribute.default
