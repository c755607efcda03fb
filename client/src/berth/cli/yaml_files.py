"""Read YAML files with the types of JSON, which is what the REST API takes.

A JSON file is read as JSON. In YAML a plain scalar is null, true, false or a number as JSON writes
it, and in a few more spellings: empty or ~, True, +5, .5 and 5. All other YAML types (2026-12-01,
0777, 1:30, .inf) stay text, and so does every value of `environment` but null. The words yes, no,
on and off are booleans in the fields of SWITCHES only.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from berth.cli.input_files import json_in, read_text
from berth.errors import InvalidInput

MOST_VALUES = 20_000
MOST_LEVELS = 50
AS_WRITTEN = ("environment",)
SWITCHES = frozenset({"personal_files", "requeues", "may_run_elsewhere", "readonly"})
YES_AND_NO = {"yes": True, "on": True, "no": False, "off": False}

_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _MERGE = (f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "merge"))
_WHOLE = r"[-+]?(?:0|[1-9][0-9]{0,98})"


class _Loader(yaml.SafeLoader):
    """YAML loader that resolves only the types of JSON."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  the form that PyYAML wants

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        r"""Return the scalar with one character for each pair like \ud83d\ude00, as in JSON."""
        node = super().compose_scalar_node(anchor)
        node.value = node.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return node


for _tag, _pattern, _first in (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, _WHOLE, list("-+0123456789")),
    (
        _FLOAT,
        rf"(?:{_WHOLE}(?:\.[0-9]{{0,99}})?|[-+]?\.[0-9]{{1,99}})(?:[eE][-+]?[0-9]{{1,3}})?",
        list("-+.0123456789"),
    ),
    (_MERGE, r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)


def read_object(file: str) -> dict[str, Any]:
    """Read one object from a YAML or JSON file. Raises InvalidInput, naming the line."""
    text = read_text(file)
    try:
        found = _yaml(text, file) if text.lstrip()[:1] != "{" else _json_or_yaml(text, file)
    except yaml.YAMLError as error:
        raise InvalidInput(f"{file}: cannot be read as YAML: {_words(error)}.") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{file}: is no object of fields.")
    return found


def _json_or_yaml(text: str, file: str) -> Any:
    try:
        return _plain(json_in(text, file, number=_Number.of), file, ())
    except InvalidInput as no_json:
        try:
            return _yaml(text, file)
        except yaml.YAMLError:
            if "\t" in text:  # JSON may be indented with tabs, YAML may not: the file is meant as JSON
                raise no_json from None
            raise


def _yaml(text: str, file: str) -> Any:
    try:
        nodes = [node for node in yaml.compose_all(text, _Loader) if node.tag != _NULL]
        reading = _Reading(file)
        if len(nodes) > 1:
            reading.refuse(nodes[1], "a second document begins here; describe one session in a file.")
        return reading.value(nodes[0], ()) if nodes else None
    except RecursionError as error:
        raise InvalidInput(f"{file}: cannot be read as YAML: it is nested too deeply.") from error


@dataclass(frozen=True, slots=True)
class _Number:
    """JSON number, with the text that it was written as."""

    text: str
    value: int | float

    @classmethod
    def of(cls, text: str) -> "_Number":
        if text.lstrip("-").isdecimal():
            return cls(text, int(text))
        if not math.isfinite(number := float(text)):
            raise ValueError(f"{text[:80]} is too large a number")
        return cls(text, number)


def _plain(value: Any, file: str, place: tuple[str, ...]) -> Any:
    """Return `value` as JSON; values at places in AS_WRITTEN become text. Raises InvalidInput."""
    if len(place) > MOST_LEVELS:
        raise InvalidInput(f"{file}: something is nested more than {MOST_LEVELS} levels deep.")
    match value:
        case dict():
            return {name: _plain(one, file, (*place, name)) for name, one in value.items()}
        case list():
            return [_plain(one, file, (*place, "[]")) for one in value]
        case _Number():
            return value.text if _is_as_written(place) else value.value
        case bool() if _is_as_written(place):
            return str(value).lower()
    return value


def _is_as_written(place: tuple[str, ...]) -> bool:
    """Return True for a place below AS_WRITTEN, also if fields are merged in by <<."""
    return tuple(part for part in place if part != "<<")[: len(AS_WRITTEN)] == AS_WRITTEN


class _Reading:
    """Builder of JSON values from the nodes of one file; the expansion of aliases is bounded."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = MOST_VALUES

    def value(self, node: yaml.Node, place: tuple[str, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            self.refuse(node, f"the file stands for more than {MOST_VALUES:,} values.")
        if len(place) > MOST_LEVELS:
            self.refuse(node, f"this is within itself, or nested more than {MOST_LEVELS} levels deep.")
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._object(node, place)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(item, (*place, "[]")) for item in node.value]
            case yaml.ScalarNode():
                return self._scalar(node, place)
        return self._refuse_tag(node)

    def refuse(self, node: yaml.Node, sentence: str) -> NoReturn:
        mark = node.start_mark
        raise InvalidInput(f"{self._file}: line {mark.line + 1}, column {mark.column + 1}: {sentence}")

    def _object(self, node: yaml.MappingNode, place: tuple[str, ...]) -> dict[str, Any]:
        inherited: dict[str, Any] = {}
        found: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if name_node.tag == _MERGE:
                inherited = self._merged(value_node, place) | inherited
                continue
            if not isinstance(name_node, yaml.ScalarNode) or not name_node.value:
                self.refuse(name_node, "the name of a field is text.")
            name = name_node.value
            if name in found:
                self.refuse(name_node, f"“{name[:80]}” is there twice.")
            found[name] = self.value(value_node, (*place, name))
        return inherited | found

    def _merged(self, node: yaml.Node, place: tuple[str, ...]) -> dict[str, Any]:
        """Return the merged fields of an object, or of a list of objects: the first one wins."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            fields = self.value(part, (*place, "<<"))
            if not isinstance(fields, dict):
                self.refuse(part, "<< takes an object of fields.")
            merged = fields | merged
        return merged

    def _scalar(self, node: yaml.ScalarNode, place: tuple[str, ...]) -> Any:
        text: str = node.value
        if node.tag == _NULL:
            return None
        if _is_as_written(place):
            return text
        if node.tag in (f"{_TAG}str", _MERGE):
            is_switch = node.style is None and place[-1:] and place[-1] in SWITCHES
            return YES_AND_NO.get(text.lower(), text) if is_switch else text
        if node.tag == _BOOL and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            if node.tag == _INT:
                return int(text)
            if node.tag == _FLOAT and math.isfinite(number := float(text)):
                return number
        except ValueError:
            pass
        return self._refuse_tag(node)

    def _refuse_tag(self, node: yaml.Node) -> NoReturn:
        tag = str(node.tag).replace(_TAG, "!!")[:80]
        self.refuse(node, f"{tag} has no counterpart in JSON; write text, numbers, lists and objects.")


def _words(error: yaml.YAMLError) -> str:
    """Return the place and the problem as one line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + " ".join(str(problem or error).split())[:300]
