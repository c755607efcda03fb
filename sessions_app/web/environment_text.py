r"""Parse and format environment variables as lines of NAME=value. Values with line breaks, or that
begin with $', are escaped as in a shell: NAME=$'one\ntwo'. Pure.
"""

import re
from collections.abc import Mapping

from common.i18n import gettext as _
from common.values.text import quoted

_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}
_PLAIN = {"n": "\n", "r": "\r"}


def parse_variables(text: str) -> dict[str, str]:
    """Return the variables of the lines; blank lines are ignored. Raises ValueError quoting the line."""
    pairs = {}
    for line in filter(str.strip, text.replace("\r\n", "\n").split("\n")):
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(_("{line} has no “=”. Write NAME=value.").format(line=quoted(line)))
        pairs[name.strip()] = _read(value)
    return pairs


def format_variables(variables: Mapping[str, str]) -> str:
    """Return the lines that `parse_variables` reads back."""
    return "\n".join(f"{name}={_written(value)}" for name, value in variables.items())


def _read(value: str) -> str:
    if len(value) < 3 or not (value.startswith("$'") and value.endswith("'")):
        return value
    return re.sub(r"\\(.)", lambda found: _PLAIN.get(found[1], found[1]), value[2:-1])


def _written(value: str) -> str:
    if value.startswith("$'") or "\n" in value or "\r" in value:
        return "$'" + "".join(_ESCAPED.get(letter, letter) for letter in value) + "'"
    return value
