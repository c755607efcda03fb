"""Holds waiting sessions whose resource group no longer admits them (grant revoked, type excluded).

They keep their place if the group admits them again, and are cancelled after a day. Running
sessions are not affected.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Any

from django.db import transaction
from django.db.models import Count

from accounts.core.roles import Role
from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups import service
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import Status
from sessions_app.lifecycle.updates import push_sessions_changed
from sessions_app.limits.group_rules import is_open_to_all, refused_by
from sessions_app.models import ComputeSession, ComputeSessionQuerySet
from sessions_app.queue.holds import BATCH_SIZE, place_group_hold, release_hold


def update_group_holds() -> None:
    """Hold sessions whose group was closed to them, and release those whose group is open again.

    Safe if it runs twice, late or never.
    """
    hold_refused_sessions(ResourceGroup.objects.present())
    held = _held()
    for group in ResourceGroup.objects.filter(pk__in=held.values("resource_group_id")):
        ids = list(held.filter(~refused_by(group), resource_group=group).values_list("pk", flat=True))
        for first in range(0, len(ids), BATCH_SIZE):
            with transaction.atomic():
                again = held.filter(~refused_by(group), pk__in=ids[first : first + BATCH_SIZE]).order_by("pk")
                for session in again.select_for_update(skip_locked=True, of=("self",)):
                    release_hold(session)


def hold_refused_sessions(asked: Iterable[ResourceGroup]) -> None:
    """Hold the queued sessions that these groups no longer admit. One query per restricted group."""
    for group in asked:
        if not is_open_to_all(group):
            _hold_refused_in(group)


def hold_excluded_sessions(group_id: int) -> None:
    """Hold the queued sessions that this group no longer admits."""
    hold_refused_sessions(ResourceGroup.objects.filter(pk=group_id))


@transaction.atomic
def _hold_refused_in(group: ResourceGroup) -> None:
    """Hold the queued sessions that the group no longer admits, skipping locked rows.

    It must not wait: the caller may have locked the group, and holders of a session's lock may wait
    for the group. The next round finds the skipped ones.
    """
    closed = _queued_in(group).filter(refused_by(group)).order_by("pk")
    columns = ("pk", "owner_id", "project_id", "domain_id")
    locked = closed.select_for_update(no_key=True, skip_locked=True, of=("self",))
    if found := list(locked.values_list(*columns)):
        place_group_hold([row[0] for row in found], group)
        push_sessions_changed(found, Status.PENDING)


def count_excluded(group: ResourceGroup, changes: Mapping[str, Any]) -> int:
    """Return the number of queued sessions that these changes would hold. One query at most."""
    changed = copy(group)
    for column in service.ADMISSION_RULES:
        setattr(changed, column, changes.get(column, getattr(group, column)))
    is_same = all(getattr(changed, column) == getattr(group, column) for column in service.ADMISSION_RULES)
    return 0 if is_same or is_open_to_all(changed) else _queued_in(group).filter(refused_by(changed)).count()


def count_excluded_by_grant(group: ResourceGroup, grants: Collection[GroupGrant]) -> Mapping[int, int]:
    """Return {grant id: number of queued sessions that only this grant admits}. One query at most."""
    if group.is_public or not grants:
        return {}
    queued = _queued_in(group).exclude(owner__role=Role.SUPERADMIN).order_by()
    alike = queued.values_list("owner_id", "domain_id", "project_id").annotate(Count("pk"))
    found: Counter[int] = Counter()
    for user_id, domain_id, project_id, count in alike:
        theirs = [
            each.pk
            for each in grants
            if user_id == each.user_id or domain_id == each.domain_id or project_id == each.project_id
        ]
        if len(theirs) == 1:
            found[theirs[0]] += count
    return found


def _queued_in(group: ResourceGroup) -> ComputeSessionQuerySet:
    queued: ComputeSessionQuerySet = ComputeSession.objects.waiting()
    return queued.filter(held_for=Hold.NOTHING.value, resource_group=group)


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.waiting().filter(held_for=Hold.GROUP.value)
    return held
