"""Holds waiting sessions whose image no machine of their group has or can pull.

An image without a registry was built or loaded on a machine; an engine that pulls it would run
whatever is published under that name. The sessions are held until a machine has the image.
"""

from django.db import transaction

from agents.models import ResourceGroup
from images.models import ContainerImage
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import Status
from sessions_app.lifecycle.updates import push_sessions_changed
from sessions_app.models import ComputeSession, ComputeSessionQuerySet
from sessions_app.queue.holds import BATCH_SIZE, missing_image_hold, record_hold_state, release_hold


def update_image_holds() -> None:
    """Hold sessions whose image has disappeared, and release those whose image is available.

    One query per image and group with waiting sessions. Safe if it runs twice, late or never.
    """
    for group, image in _groups_and_images(_sessions_under(Hold.NOTHING)):
        place_image_hold(group, image)
    for group, image in _groups_and_images(_sessions_under(Hold.IMAGE)):
        if missing_image_hold(group, image) is None:
            _release(_sessions_under(Hold.IMAGE).filter(resource_group=group, image=image))


@transaction.atomic
def place_image_hold(group: ResourceGroup, image: ContainerImage) -> None:
    state = missing_image_hold(group, image)
    if state is None:
        return
    theirs = _sessions_under(Hold.NOTHING).filter(resource_group=group, image=image).order_by("pk")
    columns = ("pk", "owner_id", "project_id", "domain_id")
    found = list(theirs.select_for_update(no_key=True, of=("self",)).values_list(*columns))
    ids = [row[0] for row in found]
    ComputeSession.objects.filter(pk__in=ids).update(
        held_for=state.hold.value,
        status_reason=state.reason.value,
        status_message=state.message,
        queue_position=None,
    )
    record_hold_state(ids, state)
    push_sessions_changed(found, Status.PENDING)


def _sessions_under(hold: Hold) -> ComputeSessionQuerySet:
    """Return sessions under `hold` whose image has no registry."""
    waiting: ComputeSessionQuerySet = ComputeSession.objects.waiting()
    return waiting.filter(held_for=hold.value, image__registry=None)


def _groups_and_images(sessions: ComputeSessionQuerySet) -> list[tuple[ResourceGroup, ContainerImage]]:
    """Return the distinct pairs of group and image of these sessions. 3 queries."""
    pairs = list(sessions.order_by().values_list("resource_group_id", "image_id").distinct())
    groups = ResourceGroup.objects.in_bulk({group_id for group_id, _image in pairs})
    images = ContainerImage.objects.in_bulk({image_id for _group, image_id in pairs})
    return [(groups[group_id], images[image_id]) for group_id, image_id in pairs]


def _release(sessions: ComputeSessionQuerySet) -> None:
    ids = list(sessions.values_list("pk", flat=True))
    for first in range(0, len(ids), BATCH_SIZE):
        with transaction.atomic():
            batch = sessions.filter(pk__in=ids[first : first + BATCH_SIZE]).order_by("pk")
            for session in batch.select_for_update(skip_locked=True, of=("self",)):
                release_hold(session)
