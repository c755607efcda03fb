"""Trash inside a folder: deleted and replaced entries wait in `.berth-trash/<batch>/<their path>`
until they are restored or expire. What is being copied, unpacked or written is in another directory,
UNFINISHED, so that emptying the trash ends no operation; what a killed process has left there expires.

A batch holds what one request deleted. Its name begins with the time, so no table is needed, and
sessions that mount the folder can look into it.
"""

import os
import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from vfolders.core.paths import MAX_DEPTH, ROOT, TRASH, UNFINISHED, EntryPath
from vfolders.storage import descriptors, trees
from vfolders.storage.descriptors import Owner, closing
from vfolders.storage.trees import NameTaken, Placing

KEPT_S = 7 * 24 * 3600
UNFINISHED_KEPT_S = 24 * 3600
"""Longer than any copy may take."""
EXPIRY_S = 20.0
_BATCH = re.compile(r"(\d{10})-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries that one request deleted. `paths` are at most 20 of them, by name."""

    id: str
    deleted_at: datetime
    paths: tuple[EntryPath, ...]


def new_batch() -> str:
    """Return the name of a new batch."""
    return f"{int(time.time()):010d}-{uuid.uuid4().hex[:12]}"


def is_batch(text: str) -> bool:
    return _BATCH.fullmatch(text) is not None


def discard(folder: int, directory: int, name: str, *, path: EntryPath, batch: str, owner: Owner) -> None:
    """Move `name` of the open directory into the batch, as the entry that had this path.
    Raises NotADirectoryError if a session has put something else in the place of the trash.
    """
    with descriptors.descend(folder, (TRASH, batch, *path[:-1]), create_for=owner) as place:
        Placing(NameTaken.KEEP_BOTH, _never).place(directory, name, place, path)


def restore(folder: int, batch: str) -> None:
    """Move all entries of the batch back to where they were. A directory that is there again is
    filled; other taken names get a number. Raises FileNotFoundError if the batch is gone.
    """
    with descriptors.descend(folder, (TRASH, batch)) as source:
        trees.merge(source, folder, ROOT, Placing(NameTaken.KEEP_BOTH, _never))
    with descriptors.descend(folder, (TRASH,)) as waste:
        descriptors.remove(waste, batch)


def batches(folder: int) -> list[Batch]:
    """Return the batches, newest first; at most 1,000."""
    try:
        with descriptors.descend(folder, (TRASH,)) as waste:
            names = sorted(filter(is_batch, os.listdir(waste)), reverse=True)[:1000]
            found = [_batch(waste, name) for name in names]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [batch for batch in found if batch and batch.paths]


def expire(folder: int, *, now_s: float) -> int:
    """Remove the batches older than KEPT_S, and what is UNFINISHED for UNFINISHED_KEPT_S; return their
    number. Raises StillChanging after EXPIRY_S: the next call continues.
    """
    ends_at = time.monotonic() + EXPIRY_S
    kept = {TRASH: KEPT_S, UNFINISHED: UNFINISHED_KEPT_S}
    return sum(_expire(folder, name, now_s - kept_s, ends_at) for name, kept_s in kept.items())


def _expire(folder: int, directory: str, before_s: float, ends_at: float) -> int:
    try:
        with descriptors.descend(folder, (directory,)) as waste:
            old = [name for name in os.listdir(waste) if is_batch(name) and int(name[:10]) < before_s]
            for name in old:
                with suppress(FileNotFoundError):
                    descriptors.remove(waste, name, within_s=ends_at - time.monotonic())
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return len(old)


def _batch(waste: int, name: str) -> Batch | None:
    try:
        with closing(descriptors.open_directory(waste, name)) as top:
            paths = _first_paths(top)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Batch(name, datetime.fromtimestamp(int(name[:10]), UTC), paths)


def _first_paths(top: int, most: int = 20) -> tuple[EntryPath, ...]:
    """Return the entries of the first directory that holds anything but exactly one directory with
    content: those above are only the way to what was deleted.
    """
    path: EntryPath = ROOT
    directory = os.dup(top)
    try:
        while True:
            names = sorted(os.listdir(directory))
            # A session can make it deeper than any entry that Berth has put there.
            if len(names) != 1 or len(path) == MAX_DEPTH or not _has_content(directory, names[0]):
                return tuple((*path, name) for name in names[:most])
            below = descriptors.open_directory(directory, names[0])
            os.close(directory)
            directory, path = below, (*path, names[0])
    finally:
        os.close(directory)


def _has_content(parent: int, name: str) -> bool:
    try:
        with closing(descriptors.open_directory(parent, name)) as directory:
            return bool(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _never(directory: int, name: str, path: EntryPath) -> None:
    raise AssertionError(name)
