"""Sizes of the directories of a folder, as a tree: what fills it. Pure.

The tree has at most MAX_DIRECTORIES directories and MAX_DEPTH levels; files below others count in the
nearest directory that it has. So a tree of any shape takes little memory and a page is always fast.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from vfolders.core.paths import EntryPath

MAX_DIRECTORIES = 20_000
MAX_DEPTH = 32
MAX_SUFFIXES = 1_000
MAX_SUFFIX_LENGTH = 12
DAY_S = 86_400


class Age(StrEnum):
    """Time since the last change of a file, by which sizes are summed."""

    WEEK = "week"
    MONTH = "month"
    YEAR = "year"
    OLDER = "older"


_AGE_LIMITS_S = ((Age.WEEK, 7 * DAY_S), (Age.MONTH, 30 * DAY_S), (Age.YEAR, 365 * DAY_S))


@dataclass(slots=True)
class DirectorySize:
    """A directory with all that is below it. `directories` are sorted, biggest first."""

    name: str = ""
    size_bytes: int = 0
    file_count: int = 0
    directories: "list[DirectorySize]" = field(default_factory=list)

    @property
    def own_bytes(self) -> int:
        """Bytes of files that are in none of `directories`."""
        return self.size_bytes - sum(each.size_bytes for each in self.directories)

    @property
    def own_count(self) -> int:
        return self.file_count - sum(each.file_count for each in self.directories)


@dataclass(frozen=True, slots=True)
class Sum:
    """Size and number of all files of one kind. `name`: a suffix such as ".csv", "" without one; or an
    Age.
    """

    name: str
    size_bytes: int
    file_count: int


@dataclass(frozen=True, slots=True)
class DirectoryTree:
    root: DirectorySize
    suffixes: tuple[Sum, ...]  # biggest first
    ages: tuple[Sum, ...]  # in the order of Age

    def find(self, path: EntryPath) -> DirectorySize | None:
        """Return the directory, or None if the tree lacks it."""
        found: DirectorySize | None = self.root
        for name in path:
            found = found and next((each for each in found.directories if each.name == name), None)
        return found


class TreeBuilder:
    """Sums files into a DirectoryTree. `now_s` is the time from which ages are counted (Unix)."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s
        self._root = _Node("")
        self._count = 1
        self._latest: tuple[EntryPath, _Node] = ((), self._root)
        self._suffixes: dict[str, Counter[str]] = {}
        self._ages: dict[str, Counter[str]] = {age: Counter() for age in Age}

    def add(self, directory: EntryPath, name: str, size_bytes: int, modified_s: float) -> None:
        """Count one file of a directory."""
        for sums in (
            self._node(directory).own,
            self._suffix_sums(name),
            self._ages[_age(self._now_s - modified_s)],
        ):
            sums["bytes"] += size_bytes
            sums["files"] += 1

    def build(self) -> DirectoryTree:
        suffixes = sorted(_sums(self._suffixes), key=lambda each: (-each.size_bytes, each.name))
        return DirectoryTree(self._root.total(), tuple(suffixes), tuple(_sums(self._ages)))

    def _node(self, path: EntryPath) -> "_Node":
        if path == self._latest[0]:
            return self._latest[1]
        node = self._root
        for name in path[:MAX_DEPTH]:
            if name not in node.below:
                if self._count == MAX_DIRECTORIES:
                    break
                node.below[name] = _Node(name)
                self._count += 1
            node = node.below[name]
        self._latest = (path, node)
        return node

    def _suffix_sums(self, name: str) -> Counter[str]:
        suffix = _suffix(name)
        if suffix not in self._suffixes and len(self._suffixes) >= MAX_SUFFIXES:
            suffix = ""
        return self._suffixes.setdefault(suffix, Counter())


@dataclass(slots=True)
class _Node:
    name: str
    own: Counter[str] = field(default_factory=Counter)
    below: "dict[str, _Node]" = field(default_factory=dict)

    def total(self) -> DirectorySize:
        directories = sorted(
            (node.total() for node in self.below.values()), key=lambda each: (-each.size_bytes, each.name)
        )
        return DirectorySize(
            self.name,
            self.own["bytes"] + sum(each.size_bytes for each in directories),
            self.own["files"] + sum(each.file_count for each in directories),
            directories,
        )


def pack_tree(tree: DirectoryTree) -> bytes:
    """Return the tree as bytes, for `unpack_tree`. Names that are not UTF-8 stay as they are."""
    parts = (_listed(tree.root), _listed_sums(tree.suffixes), _listed_sums(tree.ages))
    return zlib.compress(json.dumps(parts, separators=(",", ":")).encode(), level=6)


def unpack_tree(content: bytes) -> DirectoryTree:
    root, suffixes, ages = json.loads(zlib.decompress(content))
    return DirectoryTree(
        _directory(root), tuple(Sum(*each) for each in suffixes), tuple(Sum(*each) for each in ages)
    )


def _listed(node: DirectorySize) -> list[object]:
    return [node.name, node.size_bytes, node.file_count, [_listed(each) for each in node.directories]]


def _listed_sums(sums: Iterable[Sum]) -> list[tuple[str, int, int]]:
    return [(each.name, each.size_bytes, each.file_count) for each in sums]


def _directory(listed: list) -> DirectorySize:
    name, size_bytes, file_count, directories = listed
    return DirectorySize(name, size_bytes, file_count, [_directory(each) for each in directories])


def _sums(counters: dict[str, Counter[str]]) -> Iterator[Sum]:
    return (Sum(name, counter["bytes"], counter["files"]) for name, counter in counters.items())


def _suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    is_usual = stem and suffix.isascii() and suffix.isalnum() and len(suffix) <= MAX_SUFFIX_LENGTH
    return dot + suffix.lower() if is_usual else ""


def _age(seconds: float) -> Age:
    return next((age for age, limit_s in _AGE_LIMITS_S if seconds < limit_s), Age.OLDER)
