"""Parsers of request bodies."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from common.errors import InvalidInput
from common.values.text import check_unicode, quoted, shown

MAX_DIGITS = 400
MAX_DEPTH = 50


class StrictJSONParser(JSONParser):
    """JSON as RFC 8259 has it, and only what has one meaning: UTF-8 whatever the charset says, no NaN, no number beyond
    what a float or 400 digits can hold, no name twice in an object, no half of a surrogate pair, no NUL."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            text = stream.read().decode()
        except UnicodeDecodeError as error:
            raise ParseError(_("The body is not UTF-8.")) from error
        try:
            parsed = json.loads(
                text,
                parse_constant=_refuse_constant,
                parse_float=_float,
                parse_int=_int,
                object_pairs_hook=_object,
            )
            _check(parsed)
        except RecursionError as error:
            raise ParseError(_("The JSON is nested too deeply.")) from error
        except json.JSONDecodeError as error:
            raise ParseError(_("The body is not JSON: {problem}.").format(problem=error)) from error
        except ValueError as error:
            raise ParseError(str(error)) from error
        return parsed


def _refuse_constant(name: str) -> Any:
    raise ValueError(_("{name} is not a number of JSON.").format(name=name))


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(
            _("{number} is not a number of JSON that anybody could count to.").format(number=quoted(text))
        )
    return number


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(_("A number has too many digits: {count}.").format(count=f"{len(text):,}"))
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(
                _("{name} is there twice in one object. Say which one you mean.").format(name=quoted(name))
            )
        found[name] = value
    return found


# Names and places from the whole body on: (of what encloses it, its own); None of the body itself.
_Place = tuple["_Place | None", str | int]


def _check(value: Any, place: _Place | None = None, depth: int = 0) -> None:
    """Raises InvalidInput at the field for text with a NUL or half of a surrogate pair, RecursionError for what is nested
    deeper than anything here. A path is written for what is refused alone: one of each value would cost the length of the
    names around it every time."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check_text(name, (place, name))
            _check(inner, (place, name), depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check(inner, (place, index), depth + 1)


def _check_text(text: str, place: _Place | None) -> None:
    try:
        check_unicode(text)
    except ValueError as error:
        where = shown(_path(place))
        raise InvalidInput(
            f"{where}: {error}" if where else str(error), fields={where: [str(error)]}
        ) from error


def _path(place: _Place | None) -> str:
    """Return `place` as “mounts.0.path”."""
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(str(part))
    return ".".join(reversed(parts))
