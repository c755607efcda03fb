"""Images of sessions on their machines: waiting for them, and their progress for the pages."""

from agents.events import ImageTransferEnded, ImageTransferProgressed
from agents.machine_images.transfers import ensure_image
from agents.models import ImageTransfer
from common import clock
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.live_updates import Audience, push_now
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, ComputeSessionQuerySet


def are_images_there(session: ComputeSession) -> bool:
    """Return True if each machine of the PREPARING session has its image; otherwise have it brought
    to those without. The launch is repeated when it has arrived. Raises RuntimeFault.
    """
    agents = {kernel.placed_agent for kernel in session.kernels.all()}
    # A transfer that failed before this session asked for the image is not its own.
    since = session.status_changed_at if session.status == Status.PREPARING else clock.now()
    # Not all(): each machine without the image begins now.
    return not [
        agent
        for agent in sorted(agents, key=lambda agent: agent.pk)
        if not ensure_image(agent, session.image_reference, since=since)
    ]


def image_transfer(session: ComputeSession) -> ImageTransfer | None:
    """Return the transfer that the PREPARING session waits for, the one with most to do; else None.
    One query, none in another status.
    """
    if session.status != Status.PREPARING:
        return None
    agents = session.kernels.values("agent")
    found = ImageTransfer.objects.active().filter(reference=session.image_reference, agent__in=agents)
    return max(
        found.select_related("source"), key=lambda each: each.total_bytes - each.done_bytes, default=None
    )


def push_progress(event: ImageTransferProgressed) -> None:
    """Tell the pages of the sessions that wait for this image."""
    columns = ("pk", "owner_id", "project_id", "domain_id")
    for session_id, *audience in _waiting(event).values_list(*columns):
        push_now("session-pull", audience=Audience(*audience), payload={"id": str(session_id)})


def continue_launches(event: ImageTransferEnded) -> None:
    """Launch the sessions that waited for this image, or end them if it did not arrive."""
    for session_id in _waiting(event).values_list("pk", flat=True):
        enqueue_on_commit(TaskName.LAUNCH_SESSION, session_id=str(session_id))


def _waiting(event: ImageTransferProgressed | ImageTransferEnded) -> ComputeSessionQuerySet:
    waiting = ComputeSession.objects.filter(status=Status.PREPARING, image_reference=event.reference)
    return waiting.filter(kernels__agent=event.agent_id).distinct()
