"""Reads of images. `visible_images` is the only list source, `access_image` the only single fetch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.core.allow_lists import AllowList, ScopeAllowList, refusing_lists
from accounts.core.limits import Scope
from common.actors import Actor
from common.errors import NotFound
from common.i18n import paragraph
from common.values.text import quoted
from images.core.references import parse_reference, place_of
from images.models import ContainerImage, ImageQuerySet

BUILT = "berth/"
BUILT_KEPT = 5


def visible_images(actor: Actor) -> ImageQuerySet:
    """Enabled images, by title and newest first; the same list for every signed-in user. Disabled
    ones are shown only in Django admin. One query.
    """
    images: ImageQuerySet = ContainerImage.objects.select_related("registry")
    return images.none() if actor.is_anonymous else images.enabled()


def access_image(actor: Actor, reference_or_id: str | int) -> ContainerImage:
    """Return the visible image with this reference or id. Raises NotFound. At most 2 queries.

    A reference without a tag means "latest", as for the engines; if there is no such tag, the
    newest image of its repository.
    """
    wanted = str(reference_or_id)
    image: ContainerImage | None = visible_images(actor).filter(image_named(wanted)).first()
    if image is None and ":" not in wanted.rpartition("/")[2] and "@" not in wanted:
        image = newest_image(actor, wanted)
    if image is None:
        raise image_not_found(wanted)
    return image


def image_not_found(wanted: str) -> NotFound:
    """Return the error for an image that the actor cannot use."""
    sentence = _("There is no image {name} to start from.").format(name=quoted(wanted, 80))
    hint = _("GET /api/v1/images/ lists those that are.")
    return NotFound.at("image", sentence, hint=hint)


def image_named(wanted: str) -> Q:
    """Return the condition on images for this id or reference."""
    is_id = wanted.isdecimal() and len(wanted) < 19
    return Q(pk=int(wanted)) if is_id else Q(reference=full_reference(wanted))


def built_image_ids() -> list[str]:
    """Return the ids of session images built by the set-up of this installation, newest first: the
    only ones that may run as helpers on machines. One query.
    """
    built = ContainerImage.objects.filter(registry=None, reference__startswith=BUILT).exclude(digest="")
    return list(built.order_by("-created_at").values_list("digest", flat=True)[:BUILT_KEPT])


def newest_image(actor: Actor, reference: str) -> ContainerImage | None:
    """Return the visible image of the same repository that was added last, with any tag. One query."""
    try:
        repository = str(replace(parse_reference(reference), tag="", digest=""))
    except ValueError:
        return None
    images = visible_images(actor).filter(reference__startswith=f"{repository}:")
    image: ContainerImage | None = images.order_by("-created_at").first()
    return image


def full_reference(reference: str) -> str:
    """Return the reference in canonical form; "" if it is invalid."""
    try:
        return str(parse_reference(reference))
    except ValueError:
        return ""


def allow_list_values(image: ContainerImage) -> Mapping[AllowList, str]:
    """Return the values to check against each allow-list for a session of `image`."""
    return {AllowList.REGISTRIES: place_of(image.reference), AllowList.IMAGES: image.reference}


def image_refusals(
    scopes: Iterable[Scope], images: Iterable[ContainerImage]
) -> dict[str, Sequence[ScopeAllowList]]:
    """Return {reference: allow-lists of policies that refuse the image}; omits allowed images. No query."""
    limited = [scope for scope in scopes if scope.allowed]
    found = {image.reference: refusing_lists(limited, allow_list_values(image)) for image in images}
    return {reference: lists for reference, lists in found.items() if lists}


def refusal_summaries(scopes: Iterable[Scope], images: Iterable[ContainerImage]) -> dict[str, str]:
    """Return {reference: first reason, and the number of further ones} for refused images."""
    return {reference: _summary(lists) for reference, lists in image_refusals(scopes, images).items()}


def _summary(lists: Sequence[ScopeAllowList]) -> str:
    first, *others = lists
    more = ngettext("And {count} more.", "And {count} more.", len(others)).format(count=len(others))
    return paragraph((first.reason, more)) if others else first.reason
