"""Parsers of request bodies."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from common.texts import check_unicode, quoted

MAX_DIGITS = 400
MAX_DEPTH = 50


class StrictJSONParser(JSONParser):
    """JSON as RFC 8259 has it, and only what has one meaning: UTF-8 whatever the charset says, no NaN, no number beyond
    what a float or 400 digits can hold, no name twice in an object, no half of a surrogate pair."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            text = stream.read().decode()
        except UnicodeDecodeError as error:
            raise ParseError("The body is not UTF-8.") from error
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
            raise ParseError("The JSON is nested too deeply.") from error
        except json.JSONDecodeError as error:
            raise ParseError(f"The body is not JSON: {error}.") from error
        except ValueError as error:
            raise ParseError(str(error)) from error
        return parsed


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON.")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{quoted(text)} is not a number of JSON that anybody could count to.")
    return number


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"A number has too many digits: {len(text):,}.")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{quoted(name)} is there twice in one object. Say which one you mean.")
        found[name] = value
    return found


def _check(value: Any, depth: int = 0) -> None:
    """Raises ValueError for text that is no Unicode, RecursionError for what is nested deeper than anything here."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, str):
        check_unicode(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            check_unicode(name)
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)
