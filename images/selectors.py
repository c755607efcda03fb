"""Reads of images. `visible_images` is the only list source, `access_image` the only single fetch."""

from django.db.models import Q

from common.actors import Actor
from common.errors import NotFound
from images.models import ContainerImage, ImageQuerySet
from images.references import parse_reference


def visible_images(actor: Actor) -> ImageQuerySet:
    """Images that sessions can be started from, newest first under one title; one list for everybody who is signed
    in. The disabled ones stand in Django's admin alone. One query."""
    images: ImageQuerySet = ContainerImage.objects.select_related("registry")
    return images.none() if actor.is_anonymous else images.enabled()


def access_image(actor: Actor, reference_or_id: str | int) -> ContainerImage:
    """The visible image with this reference or id. Raises NotFound. One query.

    A reference without a tag means "latest", as for the engines.
    """
    wanted = str(reference_or_id)
    match = Q(pk=int(wanted)) if wanted.isdecimal() and len(wanted) < 19 else Q(reference=_full(wanted))
    image: ContainerImage | None = visible_images(actor).filter(match).first()
    if image is None:
        raise NotFound(
            f"There is no image “{wanted[:80]}” to start from.",
            hint="GET /api/v1/images/ lists those that are.",
            fields={"image": ["Unknown image."]},
        )
    return image


def _full(reference: str) -> str:
    try:
        return str(parse_reference(reference))
    except ValueError:
        return ""
