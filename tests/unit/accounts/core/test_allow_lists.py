"""Texts and edge cases of allow-lists."""

import pytest

from accounts.core.allow_lists import (
    EMPTY_LIST_REFUSALS,
    MOST_ENTRIES,
    REFUSALS,
    TITLES,
    AllowList,
    all_lists,
    check_entries,
    format_entries,
    matches_pattern,
    refusing_lists,
)
from accounts.core.limits import Level, Scope
from accounts.models import ALLOW_COLUMNS, policy_allow_lists

REGISTRIES, IMAGES, HOSTS = AllowList


def scope(level: Level = Level.PROJECT, *, is_central: bool = True, **allowed: tuple[str, ...]) -> Scope:
    return Scope(level, 7, "vision", "lab", allowed=allowed, is_central=is_central)


def allows(kind: AllowList, entries: tuple[str, ...], asked: str) -> bool:
    return not refusing_lists([scope(**{kind.value: entries})], {kind: asked})


def test_every_list_has_words_and_a_column() -> None:
    assert set(AllowList) == set(TITLES) == set(REFUSALS) == set(EMPTY_LIST_REFUSALS) == set(ALLOW_COLUMNS)


@pytest.mark.parametrize(
    ("entry", "place", "is_allowed"),
    [
        ("ghcr.io", "ghcr.io/acme/tool", True),
        ("ghcr.io/acme", "ghcr.io/acme/tool", True),
        ("ghcr.io/acme", "ghcr.io/acme-evil/tool", False),
        ("ghcr.io/acme/tool", "ghcr.io/acme/tool", True),
        ("ghcr.io", "ghcr.io.evil.example/acme/tool", False),
        ("harbor.example:5000", "Harbor.Example:5000/team/x", True),
        ("harbor.example", "harbor.example:5000/team/x", False),
        ("local", "local/berth/python", True),
        ("local", "local.example/berth/python", False),
    ],
)
def test_a_registry_allows_what_is_below_it(entry: str, place: str, is_allowed: bool) -> None:
    assert allows(REGISTRIES, (entry,), place) is is_allowed


@pytest.mark.parametrize(
    ("entry", "reference", "is_allowed"),
    [
        ("python:3.12", "python:3.12", True),
        ("python:3.12", "python:3.12-slim", False),
        ("python", "python:3.12", True),
        ("python", "python@sha256:" + 64 * "0", True),
        ("python", "python-evil:3.12", False),
        ("host:5000/python", "host:5000/python:3.12", True),
        ("berth/*", "berth/python:1", True),
        ("berth/*", "evil/berth/python:1", False),
        ("*/pytorch:2.*", "ghcr.io/lab/pytorch:2.4", True),
        ("*/pytorch:2.*", "ghcr.io/lab/pytorch:1.9", False),
        ("*", "anything:1", True),
    ],
)
def test_images_are_allowed_by_pattern(entry: str, reference: str, is_allowed: bool) -> None:
    assert allows(IMAGES, (entry,), reference) is is_allowed


@pytest.mark.parametrize(
    ("pattern", "text", "is_fit"),
    [
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c", False),
        ("a*bb*c", "abc", False),
        ("ab*ba", "aba", False),
        ("a**c", "ac", True),
        ("a*", "b", False),
        ("*c", "b", False),
        ("*", "", True),
        ("a" + 40 * "*a" + "b", 250 * "a", False),
    ],
)
def test_a_star_is_any_characters_and_costs_no_time(pattern: str, text: str, is_fit: bool) -> None:
    assert matches_pattern(pattern, text) is is_fit


def test_no_list_allows_all_and_an_empty_one_nothing() -> None:
    assert not refusing_lists([scope()], {REGISTRIES: "ghcr.io/x", IMAGES: "x:1", HOSTS: "fast"})
    assert not allows(REGISTRIES, (), "ghcr.io/x")
    assert not allows(HOSTS, (), "fast")
    assert allows(HOSTS, ("fast",), "fast")
    assert not allows(HOSTS, ("fast*",), "fast1"), "hosts are names, not patterns"


def test_all_levels_hold_and_each_is_named_with_who_changes_it() -> None:
    scopes = [
        scope(Level.USER, is_central=False, images=("berth/*",)),
        scope(Level.DOMAIN, images=(), registries=("ghcr.io",)),
        scope(Level.KEYPAIR, images=("python",)),
    ]
    hit = refusing_lists(scopes, {REGISTRIES: "local/python", IMAGES: "python:3"})
    assert [(each.level, each.kind) for each in hit] == [
        (Level.DOMAIN, REGISTRIES), (Level.DOMAIN, IMAGES), (Level.USER, IMAGES),
    ]  # fmt: skip
    assert [each.refusal for each in hit] == [
        (
            "The domain “vision” may use images from ghcr.io alone; this one comes from “local/python”. "
            "Superadmins change the policy “lab”."
        ),
        "The domain “vision” may use no image. Superadmins change the policy “lab”.",
        (
            "Your account may use the images berth/* alone; this one is “python:3”. "
            "Administrators of the domain change the policy “lab”."
        ),
    ]


def test_lists_are_told_by_kind_the_widest_first() -> None:
    scopes = [scope(Level.USER, images=("a",)), scope(Level.DOMAIN, images=(), storage_hosts=("fast",))]
    told = [(each.title, each.scope_name, each.words) for each in all_lists(scopes)]
    assert told == [
        ("Images", "The domain “vision”", ""), ("Images", "vision", "a"),
        ("Storage hosts of new folders", "The domain “vision”", "fast"),
    ]  # fmt: skip
    assert [each.kind for each in all_lists(scopes, (HOSTS,))] == [HOSTS]
    assert format_entries("abcdef") == "a, b, c, d, e …"


@pytest.mark.parametrize(
    ("kind", "entries", "kept"),
    [
        (REGISTRIES, [" GHCR.io/ ", "ghcr.io"], ["ghcr.io"]),
        (REGISTRIES, ["localhost:5000/a-b/c_d"], ["localhost:5000/a-b/c_d"]),
        (IMAGES, ["python:3.12", "*/Lab@sha256:0"], ["python:3.12", "*/Lab@sha256:0"]),
        (HOSTS, ["Fast disk"], ["Fast disk"]),
        (HOSTS, [], []),
    ],
)
def test_entries_are_kept_once_and_tidy(kind: AllowList, entries: list[str], kept: list[str]) -> None:
    assert check_entries(kind, entries) == kept


@pytest.mark.parametrize(
    ("kind", "entry", "sentence"),
    [
        (REGISTRIES, "https://ghcr.io", "is no registry"),
        (REGISTRIES, "*.io", "is no registry"),
        (REGISTRIES, "", "is no registry"),
        (REGISTRIES, "ghcr.io//x", "is no registry"),
        (REGISTRIES, "docker.io/library", "Docker Hub are named without a registry. Write “local”"),
        (REGISTRIES, "Index.Docker.io", "Docker Hub are named without a registry"),
        (IMAGES, "a b", "names no images"),
        (IMAGES, "", "names no images"),
        (HOSTS, " ", "is no storage host"),
        (HOSTS, "a,b", "is no storage host"),
        (HOSTS, "a\nb", "Control characters"),
        (IMAGES, 256 * "a", "At most 255 characters"),
        (IMAGES, 7, "Give text"),
        (REGISTRIES, "none", "means an empty list"),
        (IMAGES, " None", "means an empty list"),
        (HOSTS, "none", "means an empty list"),
    ],
)
def test_what_names_nothing_is_refused(kind: AllowList, entry: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_entries(kind, [entry])


def test_a_list_has_an_end() -> None:
    with pytest.raises(ValueError, match="At most 100 entries; these are 101"):
        check_entries(HOSTS, ["x"] * (MOST_ENTRIES + 1))


def test_a_policy_has_the_lists_that_are_not_null() -> None:
    row = {"allowed_registries": None, "allowed_images": [], "allowed_storage_hosts": ["fast"]}
    assert policy_allow_lists(row) == {"images": (), "storage_hosts": ("fast",)}
