"""Sessions that wait in a resource group which is not open to them any more: its grant was revoked, or it takes no sessions of their type now.

They are held, and say so; where that was a slip, they keep their place. After a day they are cancelled. What runs goes on.
"""

from collections.abc import Iterable

from django.db import transaction

from agents import groups
from agents.models import ResourceGroup
from sessions_app.group_rules import closed_in, is_open_to_all
from sessions_app.holds import AT_ONCE, go_on, put_outside
from sessions_app.lifecycle import push_sessions_changed
from sessions_app.models import ComputeSession, ComputeSessionQuerySet
from sessions_app.queueing import Hold
from sessions_app.states import Status


def register() -> None:
    groups.register_closer(lambda group_id: hold_closed(ResourceGroup.objects.filter(pk=group_id)))


def settle_closed_groups() -> None:
    """Hold those to whom their group was closed, and let those go on to whom it is open again. Right if it runs twice, late or never."""
    hold_closed(ResourceGroup.objects.present())
    held = _held()
    for group in ResourceGroup.objects.filter(pk__in=held.values("resource_group_id")):
        ids = list(held.filter(~closed_in(group), resource_group=group).values_list("pk", flat=True))
        for first in range(0, len(ids), AT_ONCE):
            with transaction.atomic():
                again = held.filter(~closed_in(group), pk__in=ids[first : first + AT_ONCE]).order_by("pk")
                for session in again.select_for_update(skip_locked=True, of=("self",)):
                    go_on(session)


def hold_closed(asked: Iterable[ResourceGroup]) -> None:
    """Take those out of the queues of these groups to whom they are closed. One query for each group that is not open to all."""
    for group in asked:
        if not is_open_to_all(group):
            _hold_closed_in(group)


@transaction.atomic
def _hold_closed_in(group: ResourceGroup) -> None:
    """Waits for nobody: whoever closes the group has locked it, and whoever has locked a session may wait for the group. What is
    passed over is found by the next round."""
    queued = ComputeSession.objects.waiting().filter(held_for=Hold.NOTHING.value)
    closed = queued.filter(closed_in(group), resource_group=group).order_by("pk")
    columns = ("pk", "owner_id", "project_id", "domain_id")
    locked = closed.select_for_update(no_key=True, skip_locked=True, of=("self",))
    if found := list(locked.values_list(*columns)):
        put_outside([row[0] for row in found], group)
        push_sessions_changed(found, Status.PENDING)


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.waiting().filter(held_for=Hold.GROUP.value)
    return held
