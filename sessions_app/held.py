"""What live sessions hold now, for budgets."""

from collections.abc import Collection, Iterator

from django.db.models import Q

from accounts import budgeting
from accounts.budgeting import Owner
from accounts.quota import Level
from accounts.spending import Holding
from sessions_app.models import KernelAllocation


def register() -> None:
    budgeting.register(held_by)


def held_by(owners: Collection[Owner]) -> Iterator[tuple[Owner, Holding]]:
    """By the sessions of these projects and people. One query."""
    projects = [pk for level, pk in owners if level is Level.PROJECT]
    users = [pk for level, pk in owners if level is Level.USER]
    theirs = Q(kernel__session__project_id__in=projects) | Q(kernel__session__owner_id__in=users)
    rows = KernelAllocation.objects.filter(theirs).values_list(
        "kernel__session__project_id", "kernel__session__owner_id", "slot_name", "amount", "held_since"
    )
    for project_id, user_id, slot, amount, since in rows:
        for owner in ((Level.PROJECT, project_id), (Level.USER, user_id)):
            if owner in owners:
                yield owner, Holding(slot, amount, since)
