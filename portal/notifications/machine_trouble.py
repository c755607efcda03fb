"""Tells owners of sessions that one of their accelerators is ill or withheld, or that their machine is
drained.
"""

from collections.abc import Collection
from zlib import crc32

from django.db.models import Count

from agents.events import AgentDrained
from common import clock
from portal.notifications.catalogue import Code
from portal.notifications.service import NewNotification, notify_many
from sessions_app.models import ComputeSession


def notify_of_trouble(device_ids: Collection[int], because: str) -> None:
    """Tell the owners of the live sessions on these devices; once a day for the same reason."""
    today = clock.now().date()
    kernels = "kernels__allocations__devices__overlap"
    affected = ComputeSession.objects.live().filter(**{kernels: list(device_ids)}).distinct()
    notify_many(
        [
            NewNotification(
                person_id=session.owner_id,
                code=Code.DEVICE_TROUBLE,
                happening=f"device-trouble:{session.pk}:{today}:{crc32(because.encode())}",
                arguments={"name": session.name, "because": because},
                session_id=session.pk,
            )
            for session in affected
        ]
    )


def notify_of_drain(drained: AgentDrained) -> None:
    """Tell each owner of live sessions on a machine once that it is drained. If this process dies before, the
    owners are not told; the sessions continue in any case.
    """
    there = ComputeSession.objects.live().filter(kernels__agent=drained.agent_id).order_by()
    owners = there.values_list("owner_id").annotate(Count("pk", distinct=True))
    notify_many(
        [
            NewNotification(
                person_id=owner_id,
                code=Code.MACHINE_DRAINED,
                happening=f"machine-drained:{drained.agent_id}:{drained.at.isoformat()}",
                arguments={"name": drained.name, "count": count},
            )
            for owner_id, count in owners
        ]
    )
