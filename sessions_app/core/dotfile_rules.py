"""Validates a user's dotfiles: path, content, mode and conflicts. Pure."""

from collections.abc import Collection

from common.i18n import gettext as _
from common.values.resources import format_bytes
from common.values.text import check_text, check_unicode, quoted
from sessions_app.core.container_paths import MAX_NAME_BYTES, parse_mode

MAX_PATH_BYTES = 255
MAX_DEPTH = 8
MAX_CONTENT_BYTES = 64 * 1024
MAX_DOTFILES = 32
DEFAULT_MODE = "0644"
# SSH keys are managed in the portal, and uploads use temporary names that begin with ".berth".
RESERVED = (".ssh/authorized_keys", ".ssh/authorized_keys2")
RESERVED_PREFIX = ".berth"
_PRIVATE = "PRIVATE KEY-----"


def check_dotfile_path(text: str) -> str:
    """Return a path relative to the home directory, like `.config/git/config`. Raises ValueError."""
    path = check_text(text, max_length=MAX_PATH_BYTES)
    parts = path.split("/")
    if not path or path.startswith(("/", "~")):
        raise ValueError(_("Write the path from the home directory on, like .bashrc or .config/git/config."))
    if any(part in {"", ".", ".."} for part in parts):
        raise ValueError(_("The path has an empty part, “.” or “..”. Write it like .config/git/config."))
    if any(part != part.strip() for part in parts):
        raise ValueError(_("No name in the path may begin or end with a space."))
    if len(parts) > MAX_DEPTH:
        raise ValueError(_("At most {most} directories deep.").format(most=MAX_DEPTH))
    if len(path.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise ValueError(_("The path is longer than {count} bytes.").format(count=MAX_PATH_BYTES))
    if path in RESERVED or parts[0].startswith(RESERVED_PREFIX):
        raise ValueError(
            _("{path} is written by Berth itself. Choose another path.").format(path=quoted(path))
        )
    return path


def check_content(text: str) -> str:
    """Return the text of a file. Raises ValueError with a sentence."""
    content = check_unicode(text)
    if (size := len(content.encode())) > MAX_CONTENT_BYTES:
        raise ValueError(
            _("At most {most}; this is {size}. Keep larger files in a folder.").format(
                most=format_bytes(MAX_CONTENT_BYTES), size=format_bytes(size)
            )
        )
    if _PRIVATE in content:
        raise ValueError(
            _("This holds a private key. Keep it in a folder of yours, which the database does not have.")
        )
    return content


def check_file_mode(text: str) -> str:
    """Return four octal digits that let the owner read. Raises ValueError with a sentence."""
    mode = parse_mode(check_unicode(text))
    if not mode & 0o400:
        raise ValueError(
            _("With the mode {mode} you could not read the file yourself.").format(mode=quoted(text))
        )
    return f"{mode:04o}"


def conflicting_file(path: str, others: Collection[str]) -> str:
    """Return the first of `others` that cannot exist beside `path`; "" if none.

    Two paths conflict if one is a file where the other needs a directory.
    """
    return next(
        (other for other in sorted(others) if path.startswith(f"{other}/") or other.startswith(f"{path}/")),
        "",
    )


def is_within(path: str, mounts: Collection[str], home: str) -> bool:
    """Return True if the file at `path` below `home` would lie in one of the mounted folders."""
    place = f"{home}/{path}"
    return any(place == mount or place.startswith(f"{mount}/") for mount in mounts)
