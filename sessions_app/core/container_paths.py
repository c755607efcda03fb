"""Validates paths in a running container. Pure.

Text is taken literally: nothing is decoded, joined or resolved here. Access is decided in the
container.
"""

from common.i18n import gettext as _

MAX_PATH_BYTES = 3072
MAX_NAME_BYTES = 255

# Kernel file systems: copies are meaningless, and some files never end.
_NO_FILES = ("/proc", "/sys", "/dev")


class UnfitPath(ValueError):
    """Invalid path; the message is a sentence for users."""


def parse_container_path(text: str) -> str:
    """Return an absolute path without "", "." and "..", and without a trailing slash.

    Raises UnfitPath.
    """
    if not text.startswith("/"):
        raise UnfitPath(_("The path must be absolute, like /home/work/data."))
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UnfitPath(_("The path is not valid UTF-8.")) from None
    if size > MAX_PATH_BYTES:
        raise UnfitPath(_("The path is longer than {count} bytes.").format(count=MAX_PATH_BYTES))
    if "\0" in text:
        raise UnfitPath(_("The path contains a NUL."))
    parts = [part for part in text.split("/") if part]
    if any(part in {".", ".."} for part in parts):
        raise UnfitPath(_('The path must not contain "." or "..".'))
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        sentence = _("A name in the path is longer than {count} bytes.")
        raise UnfitPath(sentence.format(count=MAX_NAME_BYTES))
    path = "/" + "/".join(parts)
    if any(path == place or path.startswith(f"{place}/") for place in _NO_FILES):
        raise UnfitPath(_("What is below /proc, /sys and /dev are no files to copy."))
    return path


def parse_file_path(text: str) -> tuple[str, str]:
    """Return (directory, name) of the path of a file. Raises UnfitPath."""
    if text.endswith("/"):
        raise UnfitPath(_("The path of a file does not end with a slash."))
    directory, _slash, name = parse_container_path(text).rpartition("/")
    return directory or "/", name


def parse_mode(text: str) -> int:
    """Return permission bits from octal digits, like 0644. Raises UnfitPath."""
    if not text or len(text) > 4 or not set(text) <= set("01234567") or int(text, 8) > 0o777:
        raise UnfitPath(_("The mode is octal digits for owner, group and others, like 0644."))
    return int(text, 8)
