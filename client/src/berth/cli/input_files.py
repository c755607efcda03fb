"""Read input files of commands within a size limit; errors become one sentence."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from berth.amounts import format_bytes
from berth.errors import InvalidInput

STDIN = "-"
MOST_BYTES = 2**20


def read_bytes(file: str, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the contents of `file`; "-" is standard input. Raises InvalidInput."""
    try:
        if file == STDIN:
            data = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with open(os.path.expanduser(file), "rb") as opened:
                data = opened.read(most_bytes + 1)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read: {error.strerror}.") from error
    if len(data) > most_bytes:
        raise InvalidInput(f"{file}: has more than {format_bytes(most_bytes)}.")
    return data


def read_text(file: str, *, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of `file` without a byte order mark. Raises InvalidInput."""
    return decode_text(file, read_bytes(file, most_bytes=most_bytes)).removeprefix("\ufeff")


def decode_text(file: str, data: bytes) -> str:
    """Decode `data`, the contents of `file`. Raises InvalidInput."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{file}: line {line} cannot be read as text: it is not UTF-8.", hint="Save the file as UTF-8."
        ) from error


def json_in(text: str, source: str, *, hint: str = "", number: Callable[[str], Any] | None = None) -> Any:
    """Parse JSON; `source` names it in the error. `number` converts numbers. Raises InvalidInput."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_twins,
            parse_constant=_refuse_constant,
            parse_int=number,
            parse_float=number,
        )
    except RecursionError as error:
        raise InvalidInput(
            f"{source}: cannot be read as JSON: it is nested too deeply.", hint=hint
        ) from error
    except ValueError as error:
        raise InvalidInput(f"{source}: cannot be read as JSON: {str(error)[:300]}", hint=hint) from error


def home() -> Path:
    """Return the home directory. Raises InvalidInput."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise InvalidInput("There is no home directory: HOME is not set.", hint="Name the file.") from error


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"“{twin[:80]}” is there twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
