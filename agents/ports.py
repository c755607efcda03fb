"""Ports of machines and resource groups: what the apps above provide."""

from collections.abc import Collection, Mapping
from typing import Protocol

from common.ports import Port


class SessionCounts(Protocol):
    def __call__(self, group_id: int) -> Mapping[str, int]:
        """Return {"waiting": …, "running": …}, the numbers of sessions in the group; empty if there are none."""


class ExcludedSessionsHolder(Protocol):
    def __call__(self, group_id: int) -> None:
        """Hold the waiting sessions to which the group is closed, in the transaction that closed it."""


class PlanDiscarder(Protocol):
    def __call__(self, group_ids: Collection[int]) -> None:
        """Let no plan of these groups be committed that was made before, once the present transaction commits.

        Called after the groups were locked, and before any agent is."""


session_counts: Port[SessionCounts] = Port("agents.session_counts")
excluded_sessions_holder: Port[ExcludedSessionsHolder] = Port("agents.excluded_sessions_holder")
plan_discarder: Port[PlanDiscarder] = Port("agents.plan_discarder")
