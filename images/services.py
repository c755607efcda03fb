"""Writes of images."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.selectors import require_superadmin
from common.actors import Actor
from common.audit import audit_log
from common.errors import NotFound, invalid_field
from images.core.labels import read_hints
from images.core.references import ImageReference, parse_reference
from images.models import ContainerImage, Registry

log = structlog.get_logger(__name__)


class ImageFacts(Protocol):
    """Facts that an engine reports of an image (implemented by agents.runtime.port.ImageInfo)."""

    @property
    def image_id(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def architecture(self) -> str: ...
    @property
    def created_at(self) -> datetime | None: ...


@transaction.atomic
def discover_image(*, actor: Actor, reference: str, facts: ImageFacts) -> ContainerImage:
    """Return the row of an image that an agent has, created or updated if its content changed.

    A new image is enabled at once if it declares itself a session image (label io.berth.role); any
    other must be enabled by a superadmin. Fields that superadmins edit (title, description, icon,
    enabled) are never overwritten. Raises InvalidInput for an invalid reference.
    """
    require_superadmin(actor)
    with invalid_field("reference"):
        parsed = parse_reference(reference)

    hints = read_hints(facts.labels, facts.environment)
    content = {
        "digest": facts.image_id,
        "size_bytes": facts.size_bytes,
        "architecture": facts.architecture,
        "built_at": facts.created_at,
        "apps": [app.to_json() for app in hints.apps],
        "min_slots": hints.min_slots.to_json(),
        "accelerators": list(hints.accelerators),
        "min_cuda": hints.min_cuda,
        "bears_readonly_root": hints.bears_readonly_root,
    }

    image, is_new = ContainerImage.objects.select_for_update().get_or_create(
        reference=str(parsed),
        defaults={
            **content,
            "registry": _registry_of(parsed),
            "title": hints.title,
            "description": hints.description,
            "icon": hints.icon,
            "is_enabled": hints.is_session_image,
        },
    )
    if not is_new and all(getattr(image, name) == value for name, value in content.items()):
        return image
    if not is_new:
        for name, value in content.items():
            setattr(image, name, value)
        image.save(update_fields=list(content))

    if is_new and hints.is_session_image:
        _retire_older_builds(actor, image, parsed)
    if hints.problems:
        log.warning("image.labels_ignored", image=image.reference, problems=hints.problems)
    audit_log.record(
        actor=actor, action="images.discover_image", target=image, changes={"digest": facts.image_id}
    )
    return image


def _retire_older_builds(actor: Actor, image: ContainerImage, parsed: ImageReference) -> None:
    """Disable earlier builds of a session image `name:<version>-<hash>` of the same version."""
    version, _, _ = parsed.tag.rpartition("-")
    if not version:
        return
    build = str(replace(parsed, tag=f"{version}-"))
    for older in ContainerImage.objects.filter(reference__startswith=build, is_enabled=True).exclude(
        pk=image.pk
    ):
        set_image_enabled(actor=actor, image_id=older.pk, is_enabled=False)


@transaction.atomic
def set_image_enabled(*, actor: Actor, image_id: int, is_enabled: bool) -> ContainerImage:
    """Enable or disable an image for new sessions; running ones continue.
    Raises NotFound, PermissionDenied.
    """
    require_superadmin(actor)
    precede_admissions()
    image = ContainerImage.objects.select_for_update().filter(pk=image_id).first()
    if image is None:
        raise NotFound(_("There is no such image."))

    image.is_enabled = is_enabled
    image.save(update_fields=["is_enabled"])
    audit_log.record(
        actor=actor, action="images.set_image_enabled", target=image, changes={"is_enabled": is_enabled}
    )
    return image


@transaction.atomic
def set_image_pinned(*, actor: Actor, image_id: int, is_pinned: bool) -> ContainerImage:
    """Have machines keep an image that nobody uses, or no longer. Raises NotFound, PermissionDenied."""
    require_superadmin(actor)
    image = ContainerImage.objects.select_for_update().filter(pk=image_id).first()
    if image is None:
        raise NotFound(_("There is no such image."))
    image.is_pinned = is_pinned
    image.save(update_fields=["is_pinned"])
    audit_log.record(
        actor=actor, action="images.set_image_pinned", target=image, changes={"is_pinned": is_pinned}
    )
    return image


def _registry_of(reference: ImageReference) -> Registry | None:
    return Registry.objects.filter(host=reference.host).first() if reference.host else None
