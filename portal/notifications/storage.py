"""Notifications of byte limits that are nearly or fully used, once at each step."""

from collections.abc import Collection

from django.db import transaction
from django.db.models import Q

from accounts.core.roles import ProjectRole, Role
from accounts.models import Membership, User
from common import clock
from common.values.resources import format_bytes
from portal.notifications.catalogue import Code
from portal.notifications.service import NewNotification, notify_many
from vfolders.core.quota_steps import GAP, STEPS, following_step
from vfolders.models import QuotaWarning
from vfolders.quotas.filling import FillingLimit, filling_limits

FULL = STEPS[-1]


def notify_of_storage() -> None:
    """Notify the user, the admins of the project or domain, or the superadmins once when a limit
    reaches a step of `quota_steps`, and again only after its use fell clearly below the step. Each
    step is remembered in the transaction that notifies, so a run may end anywhere, or run twice.
    """
    limits = filling_limits(STEPS[0] - GAP)
    told = dict(QuotaWarning.objects.values_list("key", "step"))
    QuotaWarning.objects.exclude(key__in=[limit.key for limit in limits]).delete()
    for limit in limits:
        known = told.get(limit.key, 0)
        if following_step(known, limit.used, limit.value) != known:
            _follow(limit)


@transaction.atomic
def _follow(limit: FillingLimit) -> None:
    QuotaWarning.objects.get_or_create(key=limit.key, defaults={"step": 0})
    warning = QuotaWarning.objects.select_for_update().get(key=limit.key)
    step = following_step(warning.step, limit.used, limit.value)
    is_worse = step > warning.step
    warning.step = step
    warning.save(update_fields=["step"])
    if is_worse:
        _notify(limit, step)


def _notify(limit: FillingLimit, step: int) -> None:
    now = clock.now()
    notify_many(
        [
            NewNotification(
                person_id=person_id,
                code=Code.STORAGE_FULL if step == FULL else Code.STORAGE_FILLING,
                happening=f"storage:{limit.key}:{step}:{now.isoformat()}",
                arguments={
                    "name": limit.name,
                    "percent": str(100 * limit.used // limit.value if limit.value else FULL),
                    "used": format_bytes(limit.used),
                    "amount": format_bytes(limit.value),
                },
            )
            for person_id in _responsible(limit)
        ]
    )


def _responsible(limit: FillingLimit) -> Collection[int]:
    if limit.user_id is not None:
        who = Q(pk=limit.user_id)
    elif limit.project_id is not None:
        admins = Membership.objects.filter(project_id=limit.project_id, role=ProjectRole.ADMIN.value)
        who = Q(pk__in=admins.values("user_id"))
    elif limit.domain_id is not None:
        who = Q(domain_id=limit.domain_id, role=Role.DOMAIN_ADMIN.value)
    else:
        who = Q(role=Role.SUPERADMIN.value)
    return list(User.objects.filter(who, is_active=True).values_list("pk", flat=True))
