"""Allow-lists: registries, images and storage hosts that the policies of several scopes permit.
Pure.

A scope without a list allows everything, an empty list allows nothing, and the lists of all scopes
apply together. An image's registry is the path before its name: `ghcr.io/acme` allows everything
below it. An image named without a registry (built on an agent, or from Docker Hub) belongs to
`local`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from accounts.core.limits import Level, Scope, scope_name, scope_title, sort_scopes
from common.i18n import gettext as _
from common.i18n import gettext_noop, paragraph
from common.values.text import check_text, quoted

MOST_ENTRIES = 100
LONGEST_ENTRY = 255
SHOWN_ENTRIES = 5
NONE = "none"  # input for an empty list
# Docker names images of Docker Hub without a host, so entries with one would match nothing.
DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


class AllowList(StrEnum):
    """Kinds of allow-lists."""

    REGISTRIES = "registries"
    IMAGES = "images"
    STORAGE_HOSTS = "storage_hosts"


TITLES = {
    AllowList.REGISTRIES: gettext_noop("Registries of images"),
    AllowList.IMAGES: gettext_noop("Images"),
    AllowList.STORAGE_HOSTS: gettext_noop("Storage hosts of new folders"),
}
# Placeholders: {scope} begins the sentence, {entries} is the list, {asked} the refused value.
REFUSALS = {
    AllowList.REGISTRIES: gettext_noop(
        "{scope} may use images from {entries} alone; this one comes from {asked}."
    ),
    AllowList.IMAGES: gettext_noop("{scope} may use the images {entries} alone; this one is {asked}."),
    AllowList.STORAGE_HOSTS: gettext_noop("{scope} may create folders on {entries} alone, not on {asked}."),
}
EMPTY_LIST_REFUSALS = {
    AllowList.REGISTRIES: gettext_noop("{scope} may use images from no registry."),
    AllowList.IMAGES: gettext_noop("{scope} may use no image."),
    AllowList.STORAGE_HOSTS: gettext_noop("{scope} may create folders on no storage host."),
}
_REGISTRY = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9][a-z0-9._-]*)*\Z")
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:/@*-]*\Z")


@dataclass(frozen=True, slots=True)
class ScopeAllowList:
    """The list of one scope, and the requested value that is not in it ("" if nothing is
    requested).
    """

    kind: AllowList
    level: Level
    scope: str
    policy: str
    is_central: bool
    entries: tuple[str, ...]
    asked: str = ""

    @property
    def title(self) -> str:
        return _(TITLES[self.kind])

    @property
    def scope_name(self) -> str:
        """Name of the scope for administrators."""
        return scope_name(self.level, self.scope)

    @property
    def scope_title(self) -> str:
        return scope_title(self.level, self.scope)

    @property
    def words(self) -> str:
        """First entries joined by commas, e.g. "ghcr.io, local/berth"; "" for an empty list."""
        return format_entries(self.entries)

    @property
    def refusal(self) -> str:
        """Sentence that refuses the request and names the role that can change the list."""
        return paragraph((self.reason, self.who_changes))

    @property
    def reason(self) -> str:
        """Sentence that refuses the request."""
        sentence = REFUSALS if self.entries else EMPTY_LIST_REFUSALS
        return _(sentence[self.kind]).format(
            scope=self.scope_title, entries=self.words, asked=quoted(self.asked, LONGEST_ENTRY)
        )

    @property
    def who_changes(self) -> str:
        if self.is_central:
            return _("Superadmins change the policy “{policy}”.").format(policy=self.policy)
        return _("Administrators of the domain change the policy “{policy}”.").format(policy=self.policy)


def all_lists(scopes: Iterable[Scope], kinds: Iterable[AllowList] = AllowList) -> tuple[ScopeAllowList, ...]:
    """Return each list of each scope, by kind, then from the widest scope to the narrowest."""
    ordered = sort_scopes(scopes)
    return tuple(
        _scope_list(scope, kind) for kind in kinds for scope in ordered if kind.value in scope.allowed
    )


def refusing_lists(scopes: Iterable[Scope], asked: Mapping[AllowList, str]) -> tuple[ScopeAllowList, ...]:
    """Return every list that lacks a requested value; empty if all scopes allow all. Ordered by
    level, then as `asked`.
    """
    return tuple(
        _scope_list(scope, kind, text)
        for scope in sort_scopes(scopes)
        for kind, text in asked.items()
        if kind.value in scope.allowed and not _permits(kind, scope.allowed[kind.value], text)
    )


def check_entries(kind: AllowList, entries: Sequence[object]) -> list[str]:
    """Return the entries in canonical form without duplicates. Raises ValueError with a sentence."""
    if len(entries) > MOST_ENTRIES:
        raise ValueError(
            _("At most {most} entries; these are {count}.").format(most=MOST_ENTRIES, count=len(entries))
        )
    return list(dict.fromkeys(_check_entry(kind, entry) for entry in entries))


def check_known_hosts(entries: Iterable[str], hosts: Sequence[str]) -> None:
    """Raise ValueError with a sentence if an entry is not a storage host."""
    for entry in entries:
        if entry not in hosts:
            raise ValueError(
                _("There is no storage host {text}. There are: {hosts}.").format(
                    text=quoted(entry), hosts=format_entries(hosts)
                )
            )


def format_entries(entries: Sequence[str]) -> str:
    """Join the first entries by commas, e.g. "ghcr.io, local/berth"; "" if there are none."""
    shown = _(", ").join(entries[:SHOWN_ENTRIES])
    return f"{shown} …" if len(entries) > SHOWN_ENTRIES else shown


def matches_pattern(pattern: str, text: str) -> bool:
    """Return true if `text` matches `pattern`; `*` is any text. Linear in the length of both."""
    first, *others = pattern.split("*")
    if not others:
        return pattern == text
    *middles, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middles:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _permits(kind: AllowList, entries: Iterable[str], text: str) -> bool:
    if kind is AllowList.REGISTRIES:
        place = text.lower()
        return any(place == entry or place.startswith(f"{entry}/") for entry in entries)
    if kind is AllowList.IMAGES:
        return any(matches_pattern(pattern, text) for entry in entries for pattern in _patterns(entry))
    return text in entries


def _patterns(entry: str) -> tuple[str, ...]:
    """Return the patterns of an entry; a name without a tag matches all of its tags and digests."""
    has_tag = "@" in entry or ":" in entry.rpartition("/")[2]
    return (entry,) if has_tag else (entry, f"{entry}:*", f"{entry}@*")


def _scope_list(scope: Scope, kind: AllowList, asked: str = "") -> ScopeAllowList:
    entries = tuple(scope.allowed[kind.value])
    return ScopeAllowList(kind, scope.level, scope.name, scope.policy, scope.is_central, entries, asked)


def _check_entry(kind: AllowList, entry: object) -> str:
    text = check_text(entry, max_length=LONGEST_ENTRY).strip()
    if text.lower() == NONE:
        raise ValueError(_("“none” alone means an empty list, so it is no entry."))
    if kind is AllowList.REGISTRIES:
        text = text.lower().rstrip("/")
        if not _REGISTRY.match(text):
            raise ValueError(
                _("{text} is no registry. Write it like ghcr.io or ghcr.io/group.").format(text=quoted(text))
            )
        if text.partition("/")[0] in DOCKER_HUB:
            raise ValueError(
                _(
                    "{text} fits no image: those of Docker Hub are named without a registry. Write “local”, which is also what machines built, or list images by name."
                ).format(text=quoted(text))
            )
    elif kind is AllowList.IMAGES and not _PATTERN.match(text):
        raise ValueError(
            _("{text} names no images. Write it like python:3.12 or ghcr.io/group/*.").format(
                text=quoted(text)
            )
        )
    elif not text or "," in text:
        raise ValueError(_("{text} is no storage host.").format(text=quoted(text)))
    return text
