"""Lists a directory page by page in an order that stays right while sessions change it.

A page begins after an entry (its place in the order, not its number), so entries that appear or
vanish meanwhile are neither repeated nor passed over.
"""

import os
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum

from vfolders.core.paths import HIDDEN
from vfolders.storage.base import Entry
from vfolders.storage.directory_entries import entry_or_none


class Order(StrEnum):
    NAME = "name"
    SIZE = "size"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class After:
    """Place of the last entry of a page: the next one begins after it. `value` is the size in bytes
    or the time in nanoseconds; 0 in the order of names.
    """

    is_directory: bool
    value: int
    name: str


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a directory. `total` counts all its entries; `after` is None on the last page."""

    entries: tuple[Entry, ...]
    total: int
    after: After | None


_Key = tuple[int, str, str]  # value, name without case, name


def list_page(
    directory: int, *, is_top: bool, order: Order, is_descending: bool, after: After | None, limit: int
) -> Page:
    """Return at most `limit` entries of the open directory: directories first, then in this order;
    equal ones by name. `is_top`: it is the top of a folder, with names that are not listed.
    """
    groups = _keys(directory, is_top, order)
    picked: list[After] = []
    for is_directory, keys in zip((True, False), groups, strict=True):
        if after is not None and after.is_directory < is_directory:
            continue  # the page begins below the directories
        keys.sort()
        place = after if after is not None and after.is_directory == is_directory else None
        room = limit + 1 - len(picked)
        picked += [After(is_directory, key[0], key[2]) for key in _next(keys, place, room, is_descending)]
    wanted = picked[:limit]
    entries = [entry for place in wanted if (entry := entry_or_none(directory, place.name))]
    is_last = len(picked) <= limit
    return Page(tuple(entries), sum(map(len, groups)), None if is_last else wanted[-1])


def _next(keys: list[_Key], after: After | None, room: int, is_descending: bool) -> list[_Key]:
    """Return at most `room` of the sorted keys that come after this place."""
    place = None if after is None else (after.value, after.name.casefold(), after.name)
    if not is_descending:
        start = 0 if place is None else bisect_right(keys, place)
        return keys[start : start + room]
    end = len(keys) if place is None else bisect_left(keys, place)
    return keys[max(0, end - room) : end][::-1]


def _keys(directory: int, is_top: bool, order: Order) -> tuple[list[_Key], list[_Key]]:
    """Return the keys of directories and those of all other entries."""
    directories: list[_Key] = []
    others: list[_Key] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if is_top and name.startswith(HIDDEN):
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            value = 0
            if order is not Order.NAME:
                try:  # faster than entry.stat()
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                value = _value(status, order, is_directory)
            (directories if is_directory else others).append((value, name.casefold(), name))
    return directories, others


def _value(status: os.stat_result, order: Order, is_directory: bool) -> int:
    if order is Order.TIME:
        return status.st_mtime_ns
    return 0 if is_directory else status.st_size
