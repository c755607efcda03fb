"""Checks images against the allow-lists of policies (`accounts.core.allow_lists`)."""

from collections.abc import Iterable, Mapping, Sequence

from django.utils.translation import ngettext

from accounts.core.allow_lists import AllowList, ScopeAllowList, refusing_lists
from accounts.core.limits import Scope
from common.i18n import paragraph
from images.core.references import place_of
from images.models import ContainerImage


def lists_asked(image: ContainerImage) -> Mapping[AllowList, str]:
    """Return the values to check against each allow-list for a session of `image`."""
    return {AllowList.REGISTRIES: place_of(image.reference), AllowList.IMAGES: image.reference}


def objections(
    scopes: Iterable[Scope], images: Iterable[ContainerImage]
) -> dict[str, Sequence[ScopeAllowList]]:
    """Return {reference: allow-lists that refuse the image}; allowed images are absent. No query."""
    held = [scope for scope in scopes if scope.allowed]
    found = {image.reference: refusing_lists(held, lists_asked(image)) for image in images}
    return {reference: hit for reference, hit in found.items() if hit}


def objection_words(scopes: Iterable[Scope], images: Iterable[ContainerImage]) -> dict[str, str]:
    """Return {reference: first reason and the number of further ones} for refused images, for cards
    and rows.
    """
    return {reference: _in_short(hit) for reference, hit in objections(scopes, images).items()}


def _in_short(hit: Sequence[ScopeAllowList]) -> str:
    first, *others = hit
    more = ngettext("And {count} more.", "And {count} more.", len(others)).format(count=len(others))
    return paragraph((first.reason, more)) if others else first.reason
