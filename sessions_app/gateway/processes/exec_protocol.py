"""Parse and validate the JSON messages of the exec websocket (ADR 19). Pure."""

import re
from collections.abc import Mapping

from agents.runtime.port_async import SIGNALS, ProcessSpec
from common.errors import InvalidInput
from common.i18n import gettext as _
from common.i18n import ngettext
from common.values.text import quoted

SUBPROTOCOL = "berth.exec.v1"
BEARER_PREFIX = "berth.bearer."
INPUT_WINDOW_BYTES = 2**20

ARGV_WORDS = 1000
ARGV_BYTES = 128 * 2**10
ENVIRONMENT_NAMES = 100
ENVIRONMENT_BYTES = 64 * 2**10
PATH_BYTES = 3072
LARGEST_SIDE = 1000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OURS = "BERTH_"
_KNOWN = frozenset({"argv", "tty", "env", "cwd", "rows", "cols"})


def parse_order(message: object) -> ProcessSpec:
    """Parse the first message into a process specification. Raises InvalidInput naming the wrong field."""
    if not isinstance(message, dict):
        raise _wrong("argv", _("The first message is an object with “argv”."))
    if unknown := sorted(set(message) - _KNOWN):
        raise _wrong(str(unknown[0])[:40], _("There is no such field."))
    has_terminal = message.get("tty", False)
    if not isinstance(has_terminal, bool):
        raise _wrong("tty", _("“tty” is true or false."))
    return ProcessSpec(
        argv=_argv(message.get("argv", []), may_be_empty=has_terminal),
        has_terminal=has_terminal,
        environment=_environment(message.get("env", {})),
        working_dir=_working_dir(message.get("cwd", "")),
        columns=_side(message, "cols", 80),
        rows=_side(message, "rows", 24),
    )


def parse_signal(name: object) -> str:
    """Return the signal name. Raises InvalidInput if it is not supported."""
    if name not in SIGNALS:
        raise _wrong("signal", _("Signals are {names}.").format(names=", ".join(SIGNALS)))
    return str(name)


def bearer_of(headers: Mapping[bytes, bytes], subprotocols: list[str]) -> str:
    """Return the token of a handshake, from its Authorization header or subprotocols; "" without one."""
    scheme, _blank, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    offered = [name.removeprefix(BEARER_PREFIX) for name in subprotocols if name.startswith(BEARER_PREFIX)]
    return offered[0] if offered else ""


def _argv(words: object, *, may_be_empty: bool) -> tuple[str, ...]:
    if not isinstance(words, list) or not all(_is_text(word) for word in words):
        raise _wrong("argv", _("“argv” is a list of texts, the program first."))
    if not words and not may_be_empty:
        raise _wrong(
            "argv", _("“argv” names no program. Only with “tty” it may be empty: then it is a shell.")
        )
    if words and not words[0]:
        raise _wrong("argv", _("The program's name is empty."))
    if len(words) > ARGV_WORDS or sum(len(word.encode()) for word in words) > ARGV_BYTES:
        raise _wrong(
            "argv",
            _("“argv” has at most {words} words of together {size} KiB.").format(
                words=ARGV_WORDS, size=ARGV_BYTES // 2**10
            ),
        )
    return tuple(words)


def _environment(names: object) -> dict[str, str]:
    if not isinstance(names, dict) or not all(_is_text(value) for value in names.values()):
        raise _wrong("env", _("“env” is an object of texts."))
    for name in names:
        if not _NAME.fullmatch(name) or name.startswith(_OURS):
            raise _wrong("env", _("A variable cannot be called {name}.").format(name=quoted(name)))
    size = sum(len(name) + len(value.encode()) for name, value in names.items())
    if len(names) > ENVIRONMENT_NAMES or size > ENVIRONMENT_BYTES:
        raise _wrong(
            "env",
            _("“env” has at most {count} variables of {size} KiB.").format(
                count=ENVIRONMENT_NAMES, size=ENVIRONMENT_BYTES // 2**10
            ),
        )
    return dict(names)


def _working_dir(path: object) -> str:
    if path == "":
        return ""
    if not isinstance(path, str) or not _is_text(path) or not path.startswith("/"):
        raise _wrong("cwd", _("“cwd” is an absolute path."))
    if len(path.encode()) > PATH_BYTES:
        raise _wrong(
            "cwd",
            ngettext(
                "“cwd” is longer than {count} byte.", "“cwd” is longer than {count} bytes.", PATH_BYTES
            ).format(count=PATH_BYTES),
        )
    return path


def _side(message: Mapping[str, object], name: str, default: int) -> int:
    value = message.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_SIDE:
        raise _wrong(
            name, _("{field} is a number from 1 to {most}.").format(field=quoted(name), most=LARGEST_SIDE)
        )
    return value


def _is_text(value: object) -> bool:
    """Return True for text that can be passed to a process: no NUL, no lone surrogate."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(field: str, sentence: str) -> InvalidInput:
    return InvalidInput(sentence, fields={field: [sentence]})
