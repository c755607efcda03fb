"""Ports of agents and resource groups, implemented by the apps above."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from agents.models import GroupGrant, ResourceGroup
from common.ports import Port


class SessionCounts(Protocol):
    def __call__(self, group_ids: Iterable[int]) -> Mapping[int, Mapping[str, int]]:
        """Return {group id: {"waiting": number, "running": number}}; omits groups without sessions."""


class ExcludedSessions(Protocol):
    """Pending sessions that a resource group does not admit any more."""

    def hold_excluded_sessions(self, group_id: int) -> None:
        """Place a queue hold on them, in the transaction that closed the group."""

    def count_excluded(self, group: ResourceGroup, changes: Mapping[str, Any]) -> int:
        """Return the number of sessions that these changes of the group would exclude."""

    def count_excluded_by_grant(
        self, group: ResourceGroup, grants: Collection[GroupGrant]
    ) -> Mapping[int, int]:
        """Return {grant id: number of sessions that revoking this grant would exclude}; omits zeros."""


class PlanDiscarder(Protocol):
    def __call__(self, group_ids: Collection[int]) -> None:
        """Prevent plans of these groups made before the present transaction commits from being
        committed afterwards.

        Called after the groups were locked and before any agent is.
        """


session_counts: Port[SessionCounts] = Port("agents.session_counts")
excluded_sessions: Port[ExcludedSessions] = Port("agents.excluded_sessions")
plan_discarder: Port[PlanDiscarder] = Port("agents.plan_discarder")
