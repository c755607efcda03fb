"""Write local files completely or not at all, and never outside the named directory."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from berth.errors import InvalidInput, Refused

# Errors of the file system that concern one name, not the whole copy.
OF_ONE_ENTRY = frozenset(
    (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EACCES, errno.EISDIR, errno.ENOTDIR)
)


@contextmanager
def appearing(target: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `target` only if the block succeeds.

    Raises InvalidInput, Refused if a file cannot replace `target`, and OSError for errors that
    would affect the next file too, such as a full disk.
    """
    if not target.is_symlink() and is_special(target):
        raise Refused(f"{target} is a device or pipe; a file cannot take its place.", code="in_the_way")
    try:
        number, draft = tempfile.mkstemp(dir=target.parent, prefix=".berth-")
    except OSError as exc:
        if exc.errno not in OF_ONE_ENTRY:
            exc.filename = str(target.parent)  # the user does not know the name of the temporary file
            raise
        raise InvalidInput(f"{target.parent} cannot be written to: {exc.strerror}.") from exc
    try:
        with os.fdopen(number, "wb") as file:
            yield file
        Path(draft).chmod(mode & ~_umask())
        Path(draft).replace(target)
    except IsADirectoryError as exc:
        raise Refused(f"{target} is a directory; a file cannot take its place.", code="in_the_way") from exc
    finally:
        Path(draft).unlink(missing_ok=True)


def is_special(path: Path) -> bool:
    """Return True for a device, pipe or socket, or a link to one."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # absent, or an error that the next operation reports
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_safe_name(name: str) -> bool:
    """Return True if a name from the portal stays inside the directory that receives it."""
    separators = {"/", "\0", os.sep, os.altsep}
    return name not in ("", ".", "..") and separators.isdisjoint(name)


def make_local(directory: Path) -> None:
    """Create a local directory and its missing parents. Raises InvalidInput."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InvalidInput(f"{directory} cannot be made: {exc.strerror}.") from exc


def make_inside(local: Path, parts: tuple[str, ...]) -> None:
    """Create the directories `parts` below `local`. Raises Refused if one is a link or a file."""
    place = local
    for part in parts:
        place /= part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise Refused(f"{place} is in the way: it is no directory.", code="in_the_way")
        place.mkdir(exist_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
