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
    """JSON by RFC 8259, without ambiguity: always UTF-8, no NaN, no number beyond a float or 400
    digits, no repeated name in an object, no lone surrogate, no NUL.
    """

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
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


# Linked path from the body: (path of the enclosing value, own name or index); None for the body.
_Place = tuple["_Place | None", str | int]


def _check(value: Any, place: _Place | None = None, depth: int = 0) -> None:
    """Raise InvalidInput, with the field's path, for text with a NUL or lone surrogate;
    RecursionError if nested too deeply. The path is only formatted on refusal, as doing so for each
    value is expensive.
    """
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
