"""Ports of agents and resource groups, implemented by the apps above."""

from collections.abc import Collection, Mapping
from typing import Protocol

from common.ports import Port


class SessionCounts(Protocol):
    def __call__(self, group_id: int) -> Mapping[str, int]:
        """Return the numbers of sessions in the group as {"waiting": …, "running": …}; {} if none."""


class ExcludedSessionsHolder(Protocol):
    def __call__(self, group_id: int) -> None:
        """Place a queue hold on the pending sessions to which the group is closed, in the
        transaction that closed it.
        """


class PlanDiscarder(Protocol):
    def __call__(self, group_ids: Collection[int]) -> None:
        """Prevent plans of these groups made before the present transaction commits from being
        committed afterwards.

        Called after the groups were locked and before any agent is.
        """


session_counts: Port[SessionCounts] = Port("agents.session_counts")
excluded_sessions_holder: Port[ExcludedSessionsHolder] = Port("agents.excluded_sessions_holder")
plan_discarder: Port[PlanDiscarder] = Port("agents.plan_discarder")
