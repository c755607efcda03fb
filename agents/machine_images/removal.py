"""Removal of images that nobody uses any more from machines whose disk is filling.

Only images that Berth brought there are removed, and of them none that Berth needs itself, that is
pinned, or that any container there uses: the engine refuses the last.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Greatest
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.machine_images.transfers import image_lock
from agents.machines.helper_containers import helper_image, one_off_labels
from agents.machines.lifecycle import push_agent_change
from agents.models import Agent, AgentImage, ImageTransfer
from agents.runtime.port import ContainerRuntime, HelperSpec, RuntimeFault, RuntimeRefused, RuntimeUnavailable
from agents.selectors import access_agent, connected_agents, runtime_of
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.advisory_locks import try_exclusive
from common.errors import Conflict, NotFound, Unavailable
from common.resilience.keyed_pool import KeyedPool
from images.models import ContainerImage
from images.selectors import BUILT, built_image_ids

log = structlog.get_logger(__name__)

ROUND_S = 300
MOST_PER_ROUND = 20
TRANSFERS_KEPT = timedelta(days=30)
ROLE = "disk"
# As df does: what is reserved for root counts neither as used nor as available.
_DISK = "import os; disk = os.statvfs('/'); print(disk.f_blocks - disk.f_bfree, disk.f_bavail)"

_pool = KeyedPool[None]("image-removal", settings.BERTH_POOL_THREADS["image-removal"])


def remove_unused_images(image_ids: Sequence[str]) -> None:
    """Remove images that were not used for BERTH_IMAGE_KEPT_DAYS from each machine whose disk is used
    beyond BERTH_IMAGE_DISK_PERCENT, until it is not. `image_ids`: images for helpers on machines.
    """
    ImageTransfer.objects.filter(ended_at__lt=clock.now() - TRANSFERS_KEPT).delete()
    if not settings.BERTH_IMAGE_KEPT_DAYS:
        return
    agents = connected_agents().filter(last_error="", pk__in=removable_images(image_ids).values("agent"))
    _pool.run({each.pk: partial(_clean_in_thread, each, image_ids) for each in agents}, timeout_s=ROUND_S)


def _clean_in_thread(agent: Agent, image_ids: Sequence[str]) -> None:
    try:
        clean_machine(agent, image_ids)
    except RuntimeFault as fault:
        log.warning("image.not_removed", agent_id=agent.pk, agent=agent.name, error=str(fault))
    finally:
        connection.close()  # of this thread


def removable_images(image_ids: Sequence[str]) -> QuerySet[AgentImage]:
    """Return images on machines that may be removed, longest unused first."""
    pinned = ContainerImage.objects.filter(is_pinned=True).values("reference")
    rows = AgentImage.objects.exclude(brought_at=None).exclude(reference__startswith=BUILT)
    rows = rows.exclude(image_id__in=image_ids).exclude(reference__in=pinned)
    unused_since = clock.now() - timedelta(days=settings.BERTH_IMAGE_KEPT_DAYS)
    # PostgreSQL's GREATEST ignores NULL.
    aged = rows.annotate(last_at=Greatest(F("used_at"), F("brought_at"))).filter(last_at__lt=unused_since)
    return aged.order_by("last_at", "pk")


def clean_machine(agent: Agent, image_ids: Sequence[str]) -> None:
    """Remove what may be removed from one machine while its disk is too full. Raises RuntimeFault."""
    runtime = runtime_of(agent)
    for row in removable_images(image_ids).filter(agent=agent)[:MOST_PER_ROUND]:
        if used_percent(agent, runtime, image_ids) <= settings.BERTH_IMAGE_DISK_PERCENT:
            return
        try:
            _remove(row, runtime, SYSTEM)
        except RuntimeRefused as fault:  # a container uses it
            log.info("image.in_use", agent=agent.name, image=row.reference, error=str(fault))


def used_percent(agent: Agent, runtime: ContainerRuntime, image_ids: Sequence[str]) -> float:
    """Return how much of the disk with the engine's images is in use, in percent; 0 if no helper can
    look. Raises RuntimeFault.
    """
    image_id = helper_image(runtime, image_ids)
    if image_id is None:
        return 0.0
    spec = HelperSpec(
        name=f"berth-{ROLE}-{uuid4().hex[:12]}",
        image=image_id,
        labels=one_off_labels(ROLE),
        command=("python3", "-Ic", _DISK),
    )
    done = runtime.run_helper(spec)
    try:
        used, available = map(int, done.output.split())
    except ValueError:
        log.warning("image.disk_unknown", agent=agent.name, answer=done.output[:200].decode(errors="replace"))
        return 0.0
    return 100.0 * used / (used + available) if used else 0.0


def remove_image(*, actor: Actor, agent_id: int, reference: str) -> None:
    """Remove an image that Berth brought from a machine now. Raises NotFound, Conflict if Berth did
    not bring it, needs it, or a container uses it, Unavailable.
    """
    require_superadmin(actor)
    agent = access_agent(actor, agent_id)
    row = agent.images.filter(reference=reference).first()
    if row is None:
        raise NotFound(_("The machine has no such image."))
    if row.brought_at is None or reference.startswith(BUILT) or row.image_id in built_image_ids():
        raise Conflict(
            _("Berth removes only images that it brought there and does not need itself."),
            hint=_("Remove it on the machine, with “docker rmi”."),
        )
    try:
        _remove(row, runtime_of(agent), actor)
    except RuntimeUnavailable as fault:
        raise Unavailable(
            _("The engine of agent “{agent}” does not answer: {error}").format(agent=agent.name, error=fault)
        ) from fault
    except RuntimeFault as fault:
        raise Conflict(
            _("The engine did not remove the image: {error}").format(error=fault),
            hint=_("End the sessions that use it there."),
        ) from fault


def _remove(row: AgentImage, runtime: ContainerRuntime, actor: Actor) -> None:
    """Remove the image from the machine unless it was used since `row` was read. Raises RuntimeFault.

    The row goes first: a session that starts now finds none and has the image brought again, after
    the removal (`transfers.ensure_image`). A heartbeat restores the row if the image stays, so a
    crash in between leaves an image that is never removed, no more.
    """
    with try_exclusive(image_lock(row.agent_id, row.reference)) as is_mine:
        unchanged = AgentImage.objects.filter(pk=row.pk, used_at=row.used_at)
        if not is_mine or not unchanged.delete()[0]:
            return
        try:
            runtime.remove_image(row.reference)
        except RuntimeFault:
            AgentImage.objects.bulk_create([row], ignore_conflicts=True)
            raise
        with transaction.atomic():
            changes = {"image": row.reference, "size_bytes": row.size_bytes}
            audit_log.record(actor=actor, action="agents.remove_image", target=row.agent, changes=changes)
            push_agent_change(row.agent)
    log.info("image.removed", agent_id=row.agent_id, agent=row.agent.name, image=row.reference)
