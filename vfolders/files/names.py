"""Turns texts of requests into paths on the disk of a folder; the only place that does so."""

import unicodedata
from collections.abc import Callable

from common.errors import invalid_field
from common.i18n import gettext as _
from common.values.text import normalised
from vfolders.core.paths import (
    HIDDEN,
    MAX_NAME_BYTES,
    ROOT,
    EntryPath,
    UnsafePath,
    check_new_name,
    parse_directory,
    parse_name,
    parse_path,
)
from vfolders.models import VFolder
from vfolders.selectors import files_of
from vfolders.storage.base import EntryMissing, WrongKind


def existing_path(folder: VFolder, text: str) -> EntryPath:
    """Return the path of an entry as on the disk; it may be missing. Raises InvalidInput."""
    return on_disk(folder, parse(parse_path, text.removesuffix("/")))


def existing_directory(folder: VFolder, text: str, *, field: str = "path") -> EntryPath:
    """Return the path of a directory as on the disk, ROOT for "". Raises InvalidInput."""
    with invalid_field(field):
        return on_disk(folder, parse_directory(text))


def new_name(text: str) -> str:
    """Return the name that an entry may get. Raises InvalidInput."""
    with invalid_field("name"):
        name = check_new_name(parse_name(text))
        if name.startswith(HIDDEN):
            raise UnsafePath(_('Names that begin with "{start}" are the portal’s own.').format(start=HIDDEN))
        return name


def parse(parser: Callable[[str], EntryPath], path: str) -> EntryPath:
    with invalid_field("path"):
        return parser(path)


def on_disk(folder: VFolder, path: EntryPath, *, new: Callable[[str], str] = str) -> EntryPath:
    """Return `path` with each name as on the disk: exactly equal, else in Unicode normalisation
    form C or D (macOS writes D). Names that do not exist are passed through `new`.
    """
    found: EntryPath = ROOT
    for name in path:
        found = (
            *found,
            name if name.isascii() and name.isprintable() else _name_on_disk(folder, found, name, new),
        )
    return found


def is_there(folder: VFolder, path: EntryPath) -> bool:
    try:
        files_of(folder).stat(path)
    except (EntryMissing, WrongKind):
        return False
    return True


def _name_on_disk(folder: VFolder, parent: EntryPath, name: str, new: Callable[[str], str]) -> str:
    for form in dict.fromkeys((name, normalised(name), unicodedata.normalize("NFD", name))):
        if len(form.encode()) <= MAX_NAME_BYTES and is_there(folder, (*parent, form)):
            return form
    with invalid_field("path"):
        return new(name)
