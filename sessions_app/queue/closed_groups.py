"""Holds waiting sessions whose resource group no longer admits them (grant revoked, type excluded).

They keep their place if the group admits them again, and are cancelled after a day. Running
sessions are not affected.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Any

from django.db.models import Count

from accounts.core.roles import Role
from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups import service
from sessions_app.core.queue_options import Hold
from sessions_app.limits.group_rules import is_open_to_all, refused_by
from sessions_app.models import ComputeSession, ComputeSessionQuerySet
from sessions_app.queue.holds import closed_group_hold, place_hold, release_holds


def update_group_holds() -> None:
    """Hold sessions whose group was closed to them, and release those whose group is open again.

    Safe if it runs twice, late or never.
    """
    _hold_refused(ResourceGroup.objects.present())
    held = ComputeSession.objects.waiting().filter(held_for=Hold.GROUP.value)
    for group in ResourceGroup.objects.filter(pk__in=held.values("resource_group_id")):
        release_holds(held.filter(~refused_by(group), resource_group=group))


def hold_excluded_sessions(group_id: int) -> None:
    """Hold the queued sessions that this group no longer admits."""
    _hold_refused(ResourceGroup.objects.filter(pk=group_id))


def _hold_refused(groups: Iterable[ResourceGroup]) -> None:
    """Hold the queued sessions that these groups no longer admit. One query per restricted group."""
    for group in groups:
        if not is_open_to_all(group):
            place_hold(_queued_in(group).filter(refused_by(group)), closed_group_hold(group))


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
