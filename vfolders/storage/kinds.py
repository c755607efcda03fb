"""Declarations of kinds of storage hosts: their settings, what they can do, and what opens them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _

from common.errors import InvalidInput
from vfolders.storage.base import Capability, StorageBackend
from vfolders.storage.commands import Commands
from vfolders.storage.descriptors import Owner

MOST_CHARACTERS = 4000
KEPT = object()
"""In place of a secret that stays."""


class Input(StrEnum):
    """Kind of input of a setting. A secret is encrypted and never shown again."""

    TEXT = "text"
    LINES = "lines"
    NUMBER = "number"
    CHOICE = "choice"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a kind of host. `pattern` matches whole values; `example` shows one."""

    name: str
    label: Any
    help: Any = ""
    input: Input = Input.TEXT
    pattern: str = r".*"
    example: str = ""
    default: str = ""
    is_required: bool = True
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> str:
        """Return the value as text. Raises InvalidInput."""
        text = str(value).strip() if value is not None else ""
        text = text or self.default
        allowed = "\n" if self.input is Input.LINES else ""
        if len(text) > MOST_CHARACTERS or not all(each.isprintable() or each in allowed for each in text):
            raise self._wrong(
                _("Write plain text of at most {most} characters.").format(most=MOST_CHARACTERS)
            )
        if not text:
            if self.is_required:
                raise self._wrong(_("Fill in “{label}”.").format(label=self.label))
            return ""
        if self.choices and text not in self.choices:
            raise self._wrong(_("Choose one of: {choices}.").format(choices=", ".join(self.choices)))
        if self.input is Input.NUMBER and not (text.isascii() and text.isdigit() and 0 < len(text) < 13):
            raise self._wrong(_("“{label}” is a whole number.").format(label=self.label))
        if not re.fullmatch(self.pattern, text, re.DOTALL if allowed else 0):
            raise self._wrong(_("Write it like {example}.").format(example=self.example or self.label))
        return text

    def _wrong(self, sentence: str) -> InvalidInput:
        return InvalidInput(sentence, fields={self.name: [sentence]})


# A word never begins with a dash, which would make it an option of a program.
HOST_NAME = r"[A-Za-z0-9\[][A-Za-z0-9.:_\[\]-]{0,252}"
WORD = r"[A-Za-z0-9_.][A-Za-z0-9_.@$-]{0,100}"
PATH = r"/[^\s,]*"
OPTIONS = r"[A-Za-z0-9][A-Za-z0-9_=.:/,-]*"
URL = r"https?://[A-Za-z0-9\[][^\s,]*"


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Checked settings of one host. `mount_point` is its own directory for mounts on this machine."""

    values: Mapping[str, str]
    data_dir: str
    mount_point: str
    owner: Owner
    commands: Commands = field(default_factory=Commands)

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")


@dataclass(frozen=True, slots=True)
class HostKind:
    """One kind of storage host. `is_simulated`: Berth's tests know the product only from a double."""

    name: str
    title: Any
    summary: Any
    open: Callable[[HostSettings], StorageBackend]
    settings: tuple[Setting, ...]
    capabilities: frozenset[Capability] = frozenset()
    is_simulated: bool = False
    programs: tuple[str, ...] = ()
    """Programs of this machine that it needs."""
    needs: Any = ""
    """Everything that it needs, in words for administrators."""

    def lacks(self) -> tuple[str, ...]:
        """Return sentences on the programs that this machine lacks."""
        return Commands().lacking(self.programs)

    def check(self, given: Mapping[str, Any], kept: Mapping[str, str]) -> dict[str, str]:
        """Return all settings, checked; secrets that are absent or empty stay as `kept`. Raises InvalidInput
        with the sentences of all wrong fields.
        """
        unknown = sorted(set(given) - {each.name for each in self.settings})
        if unknown:
            sentence = _("{kind} has no setting “{name}”.").format(kind=self.title, name=unknown[0][:64])
            raise InvalidInput(sentence, fields={"settings": [sentence]})
        values, errors = {}, {}
        for each in self.settings:
            value = given.get(each.name)
            if each.input is Input.SECRET and not value:
                value = kept.get(each.name)
            try:
                values[each.name] = each.check(value)
            except InvalidInput as error:
                errors.update(error.fields)
        if errors:
            first = next(iter(errors.values()))[0]
            raise InvalidInput(str(first), fields=errors)
        return values

    @property
    def secret_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.settings if each.input is Input.SECRET)
