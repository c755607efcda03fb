"""Transfers of images to machines: requests, by sessions and administrators, and their results.

Rows are requests; `runner` carries them out. So a session never waits in a worker, many sessions
share one transfer, and a transfer that a killed worker left goes on in another.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.events import ImageTransferEnded
from agents.machines.lifecycle import push_agent_change
from agents.models import Agent, AgentImage, ImageTransfer
from agents.runtime.port import (
    ImageInfo,
    ImageMissing,
    ImagePullFailed,
    OutOfCapacity,
    RuntimeFault,
    RuntimeRefused,
)
from agents.selectors import connected_agents, runtime_of
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.db.advisory_locks import locked_subjects
from common.errors import Conflict
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.events import publish
from images.models import ContainerImage

log = structlog.get_logger(__name__)

SUPPLIED_AGAIN_AFTER = timedelta(minutes=10)
ERROR_LENGTH = 500
_FAULTS = {fault.code: fault for fault in (ImageMissing, ImagePullFailed, OutOfCapacity)}


def image_lock(agent_id: int, reference: str) -> str:
    """Return the name of the lock under which one process brings or removes this image."""
    return f"image:{agent_id}:{reference}"


def ensure_image(agent: Agent, reference: str, *, since: datetime) -> bool:
    """Return True if the machine has the image, and note that it is used; otherwise have it brought
    there and return False. Raises the RuntimeFault of a transfer that failed since `since`.

    An image that is about to be removed has lost its row before, so it counts as absent.
    """
    is_known = note_use(agent.pk, reference)
    if not is_known and locked_subjects([image_lock(agent.pk, reference)]):
        return False
    if runtime_of(agent).inspect_image(reference) is not None:
        return True
    last = agent.image_transfers.filter(reference=reference).first()
    if last is not None and last.error and last.ended_at and last.ended_at >= since:
        raise _FAULTS.get(last.error_code, RuntimeRefused)(last.error)
    request_transfer(agent, reference)
    return False


def note_use(agent_id: int, reference: str) -> bool:
    """Record that a session with the image starts or ends there now; False if the image is unknown."""
    rows = AgentImage.objects.filter(agent=agent_id, reference=reference)
    return bool(rows.update(used_at=clock.now()))


@transaction.atomic
def request_transfer(agent: Agent, reference: str, *, requested_by: str = "") -> ImageTransfer:
    """Return the transfer of the image to the machine that is not over; a new one if there is none."""
    transfer, is_new = ImageTransfer.objects.get_or_create(
        agent=agent, reference=reference, ended_at=None, defaults={"requested_by": requested_by}
    )
    if is_new:
        enqueue_on_commit(TaskName.TRANSFER_IMAGES)
    return transfer


@transaction.atomic
def bring_image(*, actor: Actor, image: ContainerImage, agents: Iterable[Agent]) -> list[ImageTransfer]:
    """Have the image brought to these machines, before sessions need it; a machine that has it needs
    nothing. Raises Conflict if none of them takes it: retired, or of another architecture.
    """
    require_superadmin(actor)
    able = [agent for agent in agents if agent.architecture == image.architecture or not image.architecture]
    usable = set(
        Agent.objects.in_use().filter(pk__in=[agent.pk for agent in able]).values_list("pk", flat=True)
    )
    able = [agent for agent in able if agent.pk in usable]
    if not able:
        raise Conflict(
            _("None of these machines takes the image {image}.").format(image=image),
            hint=_("It is for {architecture}, and the machines must not be retired.").format(
                architecture=image.architecture or "—"
            ),
        )
    made = [request_transfer(agent, image.reference, requested_by=actor.label) for agent in able]
    audit_log.record(
        actor=actor,
        action="agents.bring_image",
        target=image,
        changes={"agents": [agent.name for agent in able]},
    )
    return made


def supply_machines(image_ids: Sequence[str]) -> None:
    """Have the newest of these images that is on any machine brought to each connected machine that
    has none of them: helpers on machines run in it, and without its network isolation no session
    starts. A failed transfer is requested again minutes later. Three queries if all have one.
    """
    agents = [agent for agent in connected_agents() if not agent.is_simulated]
    rows = AgentImage.objects.filter(agent__in=agents, image_id__in=image_ids).order_by("reference")
    names = {(row.agent_id, row.image_id): row.reference for row in rows}
    supplied = {agent_id for agent_id, _image_id in names}
    found = [names[key] for each in image_ids for key in names if key[1] == each]
    if not found:
        return
    recently = ImageTransfer.objects.filter(
        reference=found[0], ended_at__gte=clock.now() - SUPPLIED_AGAIN_AFTER
    ).exclude(error="")
    failed = set(recently.values_list("agent_id", flat=True))
    for agent in agents:
        if agent.pk not in supplied | failed:
            request_transfer(agent, found[0])


@transaction.atomic
def record_arrival(transfer: ImageTransfer, found: ImageInfo, *, is_helper_image: bool) -> None:
    """End the transfer: the machine has the image now. It counts as brought by Berth unless it was
    there before the transfer began.
    """
    # as heartbeats do, which write the images of the agent too
    agent = Agent.objects.select_for_update(no_key=True).get(pk=transfer.agent_id)
    if (held := _lock(transfer)) is None:
        return
    row, _is_new = AgentImage.objects.get_or_create(
        agent_id=held.agent_id, reference=held.reference, defaults={"image_id": found.image_id}
    )
    row.image_id, row.size_bytes = found.image_id, found.size_bytes
    if held.started_at is not None:
        row.brought_at = clock.now()
    row.save(update_fields=["image_id", "size_bytes", "brought_at"])
    held.done_bytes = held.total_bytes
    if is_helper_image and "discovery" in agent.data:
        del agent.data["discovery"]  # the look needed the image
        agent.save(update_fields=["data"])
    _end(held, None)


@transaction.atomic
def record_failure(transfer: ImageTransfer, fault: RuntimeFault) -> None:
    """End the transfer with the reason for which the image did not arrive."""
    if (held := _lock(transfer)) is not None:
        held.error, held.error_code = str(fault)[:ERROR_LENGTH] or fault.code, fault.code
        _end(held, fault)


def _lock(transfer: ImageTransfer) -> ImageTransfer | None:
    rows = ImageTransfer.objects.select_for_update(of=("self",)).select_related("agent").active()
    return rows.filter(pk=transfer.pk).first()


def _end(transfer: ImageTransfer, fault: RuntimeFault | None) -> None:
    transfer.ended_at = clock.now()
    transfer.save()
    log.info(
        "image.transferred",
        agent_id=transfer.agent_id,
        agent=transfer.agent.name,
        image=transfer.reference,
        error=transfer.error,
    )
    publish(ImageTransferEnded(transfer.agent_id, transfer.reference))
    push_agent_change(transfer.agent)
