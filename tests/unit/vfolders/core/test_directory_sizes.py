"""Trees of directory sizes stay small, sum right, and survive being stored."""

import pytest

from vfolders.core import directory_sizes
from vfolders.core.directory_sizes import DAY_S, Age, TreeBuilder, pack_tree, unpack_tree

NOW_S = 1_000 * DAY_S


def test_directories_are_summed_biggest_first_and_by_kind_and_age() -> None:
    builder = TreeBuilder(NOW_S)
    for path, name, size, age_days in (
        ((), "top", 1, 0),
        (("a",), "x.CSV", 10, 8),
        (("a", "b"), "y.csv", 5, 100),
        (("big\udc80",), ".hidden", 100, 500),
        (("big\udc80",), "z.tar.gz", 100, 500),
    ):
        builder.add(path, name, size, NOW_S - age_days * DAY_S)
    tree = unpack_tree(pack_tree(builder.build()))

    assert [(each.name, each.size_bytes, each.file_count) for each in tree.root.directories] == [
        ("big\udc80", 200, 2), ("a", 15, 2),
    ]  # fmt: skip
    assert (tree.root.size_bytes, tree.root.own_bytes, tree.root.own_count) == (216, 1, 1)
    below = tree.find(("a", "b"))
    assert below is not None
    assert below.size_bytes == 5
    assert tree.find(("a", "c")) is tree.find(("c", "d")) is None
    assert [(each.name, each.size_bytes) for each in tree.suffixes] == [("", 101), (".gz", 100), (".csv", 15)]
    assert [(each.name, each.size_bytes) for each in tree.ages] == [
        (Age.WEEK, 1), (Age.MONTH, 10), (Age.YEAR, 5), (Age.OLDER, 200),
    ]  # fmt: skip


def test_too_many_and_too_deep_directories_count_in_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_sizes, "MAX_DIRECTORIES", 3)
    monkeypatch.setattr(directory_sizes, "MAX_DEPTH", 2)
    builder = TreeBuilder(NOW_S)
    for path in (("a", "b", "c", "d"), ("x",), ("a", "y")):
        builder.add(path, "file", 7, NOW_S)
    root = builder.build().root
    assert (root.size_bytes, root.file_count, root.own_bytes) == (21, 3, 7)
    (a,) = root.directories
    assert (a.size_bytes, a.own_bytes, [(each.name, each.size_bytes) for each in a.directories]) == (
        14, 7, [("b", 7)],
    )  # fmt: skip
