"""Allow-lists: which registries, images and storage hosts several scopes let be used. Pure.

A scope without a list allows everything, an empty list allows nothing, and all scopes hold at once. An image comes from the
place before its name: `ghcr.io/acme` allows what is below it; what is named without a registry, because machines built it or it
came from Docker Hub, is `local`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from accounts.core.limits import Level, Scope, in_order, scope_name, scope_title
from common.i18n import gettext as _
from common.i18n import gettext_noop, paragraph
from common.values.text import check_text, quoted

MOST_ENTRIES = 100
LONGEST_ENTRY = 255
SHOWN_ENTRIES = 5
NONE = "none"  # how an empty list is typed
# Engines name its images without a host, so that entries with one would fit nothing.
DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


class AllowList(StrEnum):
    """What there are lists of."""

    REGISTRIES = "registries"
    IMAGES = "images"
    STORAGE_HOSTS = "storage_hosts"


TITLES = {
    AllowList.REGISTRIES: gettext_noop("Registries of images"),
    AllowList.IMAGES: gettext_noop("Images"),
    AllowList.STORAGE_HOSTS: gettext_noop("Storage hosts of new folders"),
}
# {scope} begins the sentence, {entries} is the list in words, {asked} what was asked for.
REFUSALS = {
    AllowList.REGISTRIES: gettext_noop(
        "{scope} may use images from {entries} alone; this one comes from {asked}."
    ),
    AllowList.IMAGES: gettext_noop("{scope} may use the images {entries} alone; this one is {asked}."),
    AllowList.STORAGE_HOSTS: gettext_noop("{scope} may create folders on {entries} alone, not on {asked}."),
}
REFUSALS_OF_ALL = {
    AllowList.REGISTRIES: gettext_noop("{scope} may use images from no registry."),
    AllowList.IMAGES: gettext_noop("{scope} may use no image."),
    AllowList.STORAGE_HOSTS: gettext_noop("{scope} may create folders on no storage host."),
}
_REGISTRY = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9][a-z0-9._-]*)*\Z")
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:/@*-]*\Z")


@dataclass(frozen=True, slots=True)
class Allowance:
    """The list of one scope, and what somebody asks for that is not in it ("": nothing is asked)."""

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
        """As administrators read it."""
        return scope_name(self.level, self.scope)

    @property
    def scope_title(self) -> str:
        return scope_title(self.level, self.scope)

    @property
    def words(self) -> str:
        """ "ghcr.io, local/berth", the first of them; "" for an empty list."""
        return entry_words(self.entries)

    @property
    def refusal(self) -> str:
        """The sentence that says no, and who could change that."""
        return paragraph((self.reason, self.who_changes))

    @property
    def reason(self) -> str:
        """The sentence that says no."""
        sentence = REFUSALS if self.entries else REFUSALS_OF_ALL
        return _(sentence[self.kind]).format(
            scope=self.scope_title, entries=self.words, asked=quoted(self.asked, LONGEST_ENTRY)
        )

    @property
    def who_changes(self) -> str:
        if self.is_central:
            return _("Superadmins change the policy “{policy}”.").format(policy=self.policy)
        return _("Administrators of the domain change the policy “{policy}”.").format(policy=self.policy)


def every(scopes: Iterable[Scope], kinds: Iterable[AllowList] = AllowList) -> tuple[Allowance, ...]:
    """Each list of each scope, by kind, the widest scope first."""
    ordered = in_order(scopes)
    return tuple(
        _allowance(scope, kind) for kind in kinds for scope in ordered if kind.value in scope.allowed
    )


def refusals(scopes: Iterable[Scope], asked: Mapping[AllowList, str]) -> tuple[Allowance, ...]:
    """Every list that does not have what is asked for; none: all scopes allow it. By level, then as `asked` has them."""
    return tuple(
        _allowance(scope, kind, text)
        for scope in in_order(scopes)
        for kind, text in asked.items()
        if kind.value in scope.allowed and not _has(kind, scope.allowed[kind.value], text)
    )


def check_entries(kind: AllowList, entries: Sequence[object]) -> list[str]:
    """The list as it is kept, each entry once. Raises ValueError with a sentence."""
    if len(entries) > MOST_ENTRIES:
        raise ValueError(
            _("At most {most} entries; these are {count}.").format(most=MOST_ENTRIES, count=len(entries))
        )
    return list(dict.fromkeys(_check_entry(kind, entry) for entry in entries))


def check_known_hosts(entries: Iterable[str], hosts: Sequence[str]) -> None:
    """Raises ValueError with a sentence where one of them is no storage host."""
    for entry in entries:
        if entry not in hosts:
            raise ValueError(
                _("There is no storage host {text}. There are: {hosts}.").format(
                    text=quoted(entry), hosts=entry_words(hosts)
                )
            )


def entry_words(entries: Sequence[str]) -> str:
    """ "ghcr.io, local/berth", the first of them; "" where there is none."""
    shown = _(", ").join(entries[:SHOWN_ENTRIES])
    return f"{shown} …" if len(entries) > SHOWN_ENTRIES else shown


def fits(pattern: str, text: str) -> bool:
    """Whether `text` is what `pattern` says, in which `*` stands for any characters. As long as both together."""
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


def _has(kind: AllowList, entries: Iterable[str], text: str) -> bool:
    if kind is AllowList.REGISTRIES:
        place = text.lower()
        return any(place == entry or place.startswith(f"{entry}/") for entry in entries)
    if kind is AllowList.IMAGES:
        return any(fits(pattern, text) for entry in entries for pattern in _patterns(entry))
    return text in entries


def _patterns(entry: str) -> tuple[str, ...]:
    """A name without a tag means each of its tags."""
    has_tag = "@" in entry or ":" in entry.rpartition("/")[2]
    return (entry,) if has_tag else (entry, f"{entry}:*", f"{entry}@*")


def _allowance(scope: Scope, kind: AllowList, asked: str = "") -> Allowance:
    entries = tuple(scope.allowed[kind.value])
    return Allowance(kind, scope.level, scope.name, scope.policy, scope.is_central, entries, asked)


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
