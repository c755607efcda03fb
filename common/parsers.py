"""Parsers of request bodies."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class StrictJSONParser(JSONParser):
    """JSON as RFC 8259 has it: UTF-8 whatever the charset says, no NaN. Text that is no Unicode (half of a surrogate
    pair) is refused here, because neither the database nor an answer could carry it."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            parsed = json.loads(stream.read().decode(), parse_constant=_refuse_constant)
            json.dumps(parsed, ensure_ascii=False).encode()
        except RecursionError as error:
            raise ParseError("The JSON is nested too deeply.") from error
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}") from error
        return parsed


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON.")
