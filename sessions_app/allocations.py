"""Reads the resources allocated to live sessions, for budgets."""

from collections.abc import Sequence
from typing import Any

from django.db.models import F, QuerySet

from accounts.core.limits import Level
from sessions_app.models import KernelAllocation

OWNER_COLUMNS = {Level.PROJECT: "kernel__session__project_id", Level.USER: "kernel__session__owner_id"}


def allocations_by_owner(level: Level, ids: Sequence[int]) -> QuerySet[Any]:
    """Return the allocations of the sessions of these projects or users, annotated with `owner_id`."""
    column = OWNER_COLUMNS[level]
    return KernelAllocation.objects.filter(**{f"{column}__in": ids}).annotate(owner_id=F(column))
