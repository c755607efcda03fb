"""Parses text from users into paths inside a folder: tuples of components that are safe to open one
by one.

Pure. This is the only parser of folder paths: REST, pages and the storage port take its results.
Paths are parsed exactly as they arrive; nothing is decoded, normalised or trimmed, so that a name
cannot mean one thing to the check and another to the disk. Names of new entries and of folders are
normalised (NFC).
"""

import posixpath
import unicodedata

from common.i18n import gettext as _
from common.values.text import has_hidden, is_word, normalised

EntryPath = tuple[str, ...]
ROOT: EntryPath = ()
TRASH = ".berth-trash"  # directory at the top of a folder that keeps deleted entries for a while
UPLOADS_DIRECTORY = ".berth-uploads"  # directory at the top of a folder with files that are being uploaded
UNFINISHED = ".berth-unfinished"  # directory at the top of a folder in which entries are made before they get their name
UNLISTED = frozenset({TRASH, UPLOADS_DIRECTORY, UNFINISHED})
HIDDEN = ".berth-"  # names at the top of a folder that begin so are the portal's and not listed

MAX_NAME_BYTES = 255  # NAME_MAX of all supported file systems
MAX_PATH_BYTES = 3072  # leaves room for "/home/work/<folder>/" below the kernel's PATH_MAX of 4096
MAX_DEPTH = 128
MAX_FOLDER_NAME_LENGTH = 64
_MAX_ENDING = 16  # characters of ".tar.gz", kept at the end of a numbered name
RESERVED_PREFIX = ".berth"  # Berth writes files of such names into home directories

# Control characters, surrogates (names that are not UTF-8), line and paragraph separators: none can
# be displayed, logged or sent in a header unambiguously.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_PICTURES = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "\N{SYMBOL FOR DELETE}"}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # servers substitute it for bytes that are not UTF-8


class UnsafePath(ValueError):
    """The text is not a path inside a folder; the message is a sentence for users."""


def parse_path(text: str) -> EntryPath:
    """Return the components of the file or directory that `text` names, at least one.
    Raises UnsafePath.
    """
    if not text:
        raise UnsafePath(_("The path is empty."))
    if text.startswith("/"):
        raise UnsafePath(_("The path must be relative to the folder, without a leading slash."))
    if len(text) > MAX_PATH_BYTES:
        raise UnsafePath(_("The path is longer than {count} bytes.").format(count=MAX_PATH_BYTES))

    components = tuple(parse_name(part) for part in text.split("/"))

    if components[0].startswith(HIDDEN):
        raise UnsafePath(
            _("“{name}” is the portal’s own; choose another name.").format(name=display_name(components[0]))
        )
    if len(components) > MAX_DEPTH:
        raise UnsafePath(_("The path has more than {count} levels.").format(count=MAX_DEPTH))
    if len(text.encode()) > MAX_PATH_BYTES:
        raise UnsafePath(_("The path is longer than {count} bytes.").format(count=MAX_PATH_BYTES))
    return components


def parse_directory(text: str) -> EntryPath:
    """Return the components of a directory; "" is the folder itself (ROOT), and one trailing slash
    is allowed. Raises UnsafePath.
    """
    if not text:
        return ROOT
    return parse_path(text.removesuffix("/"))


def parse_name(text: str) -> str:
    """Return `text` if it is one component that a disk can store and a request can carry.
    Raises UnsafePath.
    """
    if not text:
        raise UnsafePath(_("The path has an empty part: a doubled or trailing slash, or no name at all."))
    if text in {".", ".."}:
        raise UnsafePath(_('The path must not contain "{part}".').format(part=text))
    if "/" in text:
        raise UnsafePath(_("A name must not contain a slash."))
    if not _is_plain(text) and any(map(_cannot_be_carried, text)):
        raise UnsafePath(_("The path contains a NUL, or is not valid UTF-8."))
    if len(text.encode()) > MAX_NAME_BYTES:
        raise UnsafePath(_("A name in the path is longer than {count} bytes.").format(count=MAX_NAME_BYTES))
    return text


def check_new_name(name: str) -> str:
    """Return `name`, normalised, if an entry may be created under it; sessions may have created
    others. Raises UnsafePath.
    """
    if any(map(_is_unsafe, name)):
        raise UnsafePath(_("A name has a line break, a tab or another control character. Leave it out."))
    if has_hidden(name):
        raise UnsafePath(
            _("The name has characters that do not show or that turn the text around. Leave them out.")
        )
    return normalised(name)


def is_addressable(name: str) -> bool:
    """True if a name found on the disk can be requested; sessions may create names that are not
    UTF-8.
    """
    if name.isascii() and name.isprintable() and len(name) <= MAX_NAME_BYTES:
        return name not in {"", ".", ".."} and "/" not in name  # long lists are mostly of these
    try:
        parse_name(name)
    except UnsafePath:
        return False
    return True


def display_name(name: str) -> str:
    """Return `name` fit for JSON and HTML: control characters become their pictures, other unsafe
    characters the replacement character.
    """
    if _is_plain(name):
        return name
    return "".join(
        _PICTURES.get(character, _REPLACEMENT) if _is_unsafe(character) else character for character in name
    )


def numbered_name(name: str, number: int) -> str:
    """Return "name (2).txt" for "name.txt", at most MAX_NAME_BYTES long."""
    stem, ending = posixpath.splitext(name)
    if stem.endswith(".tar"):
        stem, ending = stem.removesuffix(".tar"), f".tar{ending}"
    if len(ending) > _MAX_ENDING:
        stem, ending = name, ""
    mark = f" ({number}){ending}"
    while _bytes_of(stem + mark) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return stem + mark


def _bytes_of(name: str) -> int:
    return len(name.encode("utf-8", "surrogateescape"))


def parse_folder_name(text: str) -> str:
    """Return `text` if it may name a folder; it appears as `/home/work/<name>` in sessions.
    Raises UnsafePath.
    """
    name = check_new_name(parse_name(text))
    if len(name) > MAX_FOLDER_NAME_LENGTH:
        sentence = _("The name is longer than {count} characters.")
        raise UnsafePath(sentence.format(count=MAX_FOLDER_NAME_LENGTH))
    if not is_word(name):
        raise UnsafePath(
            _("Use letters, digits, dots, dashes and underscores; begin with a letter or digit.")
        )
    return name


def parse_automatic_name(text: str) -> str:
    """Return `text` if it may name a folder that is mounted automatically: a dot and a folder name.
    Raises UnsafePath.
    """
    name = f".{parse_folder_name(parse_name(text).removeprefix('.'))}"
    if len(name) > MAX_FOLDER_NAME_LENGTH:
        raise UnsafePath(
            _("The name is longer than {count} characters.").format(count=MAX_FOLDER_NAME_LENGTH)
        )
    if name.casefold().startswith(RESERVED_PREFIX):
        raise UnsafePath(_("Names that begin with {prefix} are Berth's own.").format(prefix=RESERVED_PREFIX))
    return name


def _is_plain(text: str) -> bool:
    """True for most names, at once: lists have many of them."""
    return text.isascii() and text.isprintable()


def _cannot_be_carried(character: str) -> bool:
    return character in ("\0", _REPLACEMENT) or unicodedata.category(character) == "Cs"


def _is_unsafe(character: str) -> bool:
    return character == _REPLACEMENT or unicodedata.category(character) in _UNSAFE_CATEGORIES
