"""Carries out transfers of images: from the registry, else from another machine through the portal.

One image at a time comes to a machine, in a thread of its own, so an engine that hangs delays no
other. A transfer that a killed worker left is active and unlocked: the next round begins it again.
The engines keep nothing of a broken copy; of a broken pull they keep whole layers.
"""

import time
from collections.abc import Iterator
from functools import partial

import structlog
from django.conf import settings

from agents.events import ImageTransferProgressed
from agents.machine_images.transfers import image_lock, record_arrival, record_failure
from agents.models import TIME_LIMIT, AgentImage, ImageTransfer
from agents.runtime.port import (
    ImageInfo,
    ImageMissing,
    ImagePullFailed,
    PullProgress,
    RegistryCredentials,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.selectors import connected_agents, runtime_of
from common import clock
from common.db.advisory_locks import try_exclusive
from common.messaging.events import publish
from common.resilience.keyed_pool import KeyedPool
from common.values.encryption import Undecipherable
from images.models import ContainerImage, Registry
from images.selectors import built_image_ids

log = structlog.get_logger(__name__)

SOURCES = 3
"""Machines from which a copy is tried."""

_pool = KeyedPool[None]("images", settings.BERTH_POOL_THREADS["images"])


class TransferLate(RuntimeFault):
    """The transfer did not end within TIME_LIMIT."""

    code = ImagePullFailed.code


class SourceFailed(RuntimeFault):
    """The machine that has the image stopped sending it."""

    code = "source_failed"


def start_transfers() -> None:
    """Start a thread for each machine with transfers that wait, unless it has one. Does not wait."""
    fail_late_transfers()
    agents = connected_agents().filter(last_error="", pk__in=ImageTransfer.objects.active().values("agent"))
    waiting = list(agents.values_list("pk", flat=True))
    _pool.run({agent_id: partial(carry_out, agent_id) for agent_id in waiting}, timeout_s=0)


def fail_late_transfers() -> None:
    """End the transfers that are not over in time, such as those to machines that are lost."""
    late = ImageTransfer.objects.active().filter(requested_at__lt=clock.now() - TIME_LIMIT)
    for transfer in late:
        record_failure(transfer, _lateness(transfer))


def carry_out(agent_id: int) -> None:
    """Carry out the transfers to one machine that wait, one after the other. If its engine does not
    answer, they go on waiting.
    """
    for transfer in ImageTransfer.objects.active().filter(agent=agent_id).order_by("pk"):
        with try_exclusive(image_lock(agent_id, transfer.reference)) as is_mine:
            fresh = ImageTransfer.objects.active().select_related("agent").filter(pk=transfer.pk).first()
            if not is_mine or fresh is None:
                continue
            try:
                found = _bring(fresh)
            except RuntimeUnavailable as fault:
                log.warning("image.waits", agent_id=agent_id, image=fresh.reference, error=str(fault))
                return
            except RuntimeFault as fault:
                record_failure(fresh, fault)
            else:
                record_arrival(fresh, found, is_helper_image=found.image_id in built_image_ids())


def _bring(transfer: ImageTransfer) -> ImageInfo:
    """Return the image once the machine has it. Raises RuntimeFault."""
    runtime = runtime_of(transfer.agent)
    found = runtime.inspect_image(transfer.reference)
    if found is not None:
        return found
    transfer.started_at = transfer.started_at or clock.now()
    transfer.save(update_fields=["started_at"])
    image = ContainerImage.objects.select_related("registry").filter(reference=transfer.reference).first()
    registry = image.registry if image else None
    pull_fault: ImagePullFailed | None = None
    if registry is not None and registry.is_enabled:
        try:
            return runtime.pull_image(
                transfer.reference, on_progress=_Reporter(transfer), credentials=_credentials(registry)
            )
        except ImagePullFailed as fault:
            pull_fault = fault
    for row in sources_of(transfer, image.digest if image else ""):
        try:
            _copy(row, transfer)
        except SourceFailed as fault:
            log.warning("image.source_failed", agent=row.agent.name, image=row.reference, error=str(fault))
            continue
        if (found := runtime.inspect_image(transfer.reference)) is not None:
            return found
    if pull_fault is not None:
        raise pull_fault
    raise ImageMissing(
        f"{transfer.reference} is on no other machine that answers, and no registry is known for it."
    )


def sources_of(transfer: ImageTransfer, digest: str) -> list[AgentImage]:
    """Return images on other machines to copy from, at most SOURCES: first those with the content
    that the portal knows, of them that on the portal's own machine, then those that send least.
    """
    target = transfer.agent
    sending = ImageTransfer.objects.active().exclude(source=None).values_list("source", flat=True)
    busy = list(sending)
    able = connected_agents().filter(last_error="", architecture=target.architecture).exclude(pk=target.pk)
    rows = AgentImage.objects.filter(reference=transfer.reference, agent__in=able).select_related("agent")
    there = [row for row in rows if row.agent.is_simulated == target.is_simulated]
    there.sort(
        key=lambda row: (
            bool(digest) and row.image_id != digest,
            not row.agent.is_local,
            busy.count(row.agent_id),
            row.agent.name,
        )
    )
    return there[:SOURCES]


def _copy(row: AgentImage, transfer: ImageTransfer) -> None:
    """Copy the image in pieces, without a file. Raises SourceFailed, and faults of the target."""
    transfer.source = row.agent
    transfer.save(update_fields=["source"])
    runtime_of(transfer.agent).import_image(_pieces(row, transfer))


def _pieces(row: AgentImage, transfer: ImageTransfer) -> Iterator[bytes]:
    report, done = _Reporter(transfer), 0
    try:
        for piece in runtime_of(row.agent).export_image(row.reference):
            done += len(piece)
            report(PullProgress(done, max(done, row.size_bytes), 0, 0))
            yield piece
    except TransferLate:
        raise
    except (RuntimeFault, OSError) as fault:
        raise SourceFailed(f"{row.agent.name} stopped sending {row.reference}: {fault}") from fault


class _Reporter:
    """Writes the progress of a transfer once a second. Raises TransferLate after TIME_LIMIT."""

    def __init__(self, transfer: ImageTransfer) -> None:
        self._transfer = transfer
        self._next_at = 0.0

    def __call__(self, progress: PullProgress) -> None:
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + 1
        transfer = self._transfer
        if clock.now() - transfer.requested_at > TIME_LIMIT:
            raise _lateness(transfer)
        done, total = progress.done_bytes, progress.total_bytes
        ImageTransfer.objects.filter(pk=transfer.pk).update(done_bytes=done, total_bytes=total)
        transfer.done_bytes, transfer.total_bytes = done, total
        publish(ImageTransferProgressed(transfer.agent_id, transfer.reference))


def _lateness(transfer: ImageTransfer) -> TransferLate:
    minutes = int(TIME_LIMIT.total_seconds() // 60)
    return TransferLate(f"{transfer.reference} did not arrive within {minutes} minutes.")


def _credentials(registry: Registry) -> RegistryCredentials | None:
    """Return what the machine signs in with at the registry. Raises ImagePullFailed."""
    try:
        sign_in = registry.sign_in
    except Undecipherable as error:
        raise ImagePullFailed(
            f"The password of the registry “{registry}” must be set again: {error}"
        ) from error
    return RegistryCredentials(*sign_in) if sign_in else None
