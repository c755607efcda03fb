"""Reads the time limits of running sessions and their idle facts, for pages, REST and the enforcer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from accounts.core.limits import Level, Limit, Scope
from accounts.core.utilization import UtilizationRule
from accounts.limits import ScopeIds, read_scopes
from agents.models import ResourceGroup
from common import clock
from common.values.resources import CPU, MEM
from sessions_app.core.idle_rules import (
    DEVICE,
    DEVICE_MEM,
    NEAR,
    Cause,
    End,
    Extension,
    Facts,
    MinimumUtilization,
    ResourceUtilization,
    Thresholds,
    earliest_end,
    expected_ends,
    measured_utilization,
    shown_thresholds,
    tightest_extension,
)
from sessions_app.core.states import DEADLINES_S, Status
from sessions_app.models import ComputeSession, Gap, SessionIdle, SessionType

Scopes = Mapping[tuple[Level, int], Scope]

THRESHOLDS = {
    CPU: "min_cpu_percent",
    MEM: "min_mem_percent",
    DEVICE: "min_device_percent",
    DEVICE_MEM: "min_device_mem_percent",
}
"""Column of groups by utilisation name; limits of policies have the same names."""


@dataclass(frozen=True, slots=True)
class NextEnd:
    """Next end of a running session if nothing changes.

    `cause`: "" for the session's own time limit. `is_near`: its owner was notified. `is_soon`: at
    most NEAR is left. `idle_since`: None if there is no idle timeout or it is not measured; `gap`
    is the reason. `use`: utilisation and minimum of each resource, as last judged.
    """

    ends_at: datetime | None
    cause: str
    is_near: bool
    is_soon: bool
    interacted_at: datetime | None
    idle_since: datetime | None
    max_idle_s: int | None
    gap: str
    use: tuple[ResourceUtilization, ...]


def is_own_limit(session: ComputeSession) -> bool:
    """Return True if the time limit of the request ends it before the maximum lifetime."""
    return session.timeout_s is not None and (
        session.lifetime_s is None or session.timeout_s <= session.lifetime_s
    )


def idle_row(session: ComputeSession) -> SessionIdle:
    """Return the session's idle row, or an unsaved empty one."""
    return getattr(session, "idle", None) or SessionIdle(session_id=session.pk)


def group_thresholds(group: ResourceGroup) -> dict[str, int]:
    """Return the minimum utilisation that the group requires, in percent by name."""
    found = {name: getattr(group, column) for name, column in THRESHOLDS.items()}
    return {name: percent for name, percent in found.items() if percent is not None}


def required_utilization(session: ComputeSession, scopes: Scopes) -> MinimumUtilization:
    """Return the minimum utilisation required by its group and policies.

    Empty for batch sessions, unless the group ends idle batch sessions.
    """
    group = session.resource_group
    windows_s = limit_values(session, scopes, Limit.USE_WINDOW)
    is_meant = session.type != SessionType.BATCH or group.ends_idle_batch
    return MinimumUtilization(
        group=Thresholds(group_thresholds(group) if is_meant else {}, UtilizationRule(group.use_rule)),
        policies=_policy_thresholds(session, scopes) if is_meant else (),
        window=timedelta(seconds=_shortest_s(group, group.use_window_s, min(windows_s, default=None))),
        policies_grace_s=min(limit_values(session, scopes, Limit.USE_GRACE), default=None),
    )


def _policy_thresholds(session: ComputeSession, scopes: Scopes) -> tuple[Thresholds, ...]:
    found = [scopes[key] for key in scope_keys(session) if key in scopes]
    wanted = [
        Thresholds(
            {name: scope.limits[column] for name, column in THRESHOLDS.items() if column in scope.limits},
            scope.use_rule,
        )
        for scope in found
    ]
    return tuple(each for each in wanted if each.least)


def thresholds_to_json(least: MinimumUtilization) -> list[dict[str, Any]]:
    """Return the thresholds in the form stored in `SessionIdle.thresholds`."""
    return [
        {"rule": each.rule.value, "least": dict(each.least), "is_group": each is least.group}
        for each in (least.group, *least.policies)
        if each.least
    ]


def thresholds_from_json(idle: SessionIdle, *, with_group: bool = True) -> list[Thresholds]:
    """Return the thresholds of the group and policies as last judged."""
    found = [kept for kept in idle.thresholds if with_group or not kept["is_group"]]
    return [Thresholds(kept["least"], UtilizationRule(kept["rule"])) for kept in found]


def judge_utilization(session: ComputeSession, idle: SessionIdle) -> tuple[ResourceUtilization, ...]:
    """Return utilisation and minimum by resource, with the group's current minimum.

    Minimums of policies are as last judged. No query if the session came with its group.
    """
    group = session.resource_group
    by_group = Thresholds(group_thresholds(group), UtilizationRule(group.use_rule))
    return measured_utilization(
        idle.use, shown_thresholds(idle.use, [by_group, *thresholds_from_json(idle, with_group=False)])
    )


def _shortest_s(group: ResourceGroup, own_s: int, of_policies_s: int | None) -> int:
    """Return the shorter of a group's and the policies' seconds, for a window or a grace.

    A group without minimum utilisation does not count if a policy sets a value.
    """
    if of_policies_s is None:
        return own_s
    return min(own_s, of_policies_s) if group_thresholds(group) else of_policies_s


def idle_facts(session: ComputeSession, idle: SessionIdle) -> Facts:
    """Return the idle facts of a running session that came with its group. No query."""
    started_at, group = session.started_at or session.status_changed_at, session.resource_group
    return Facts(
        started_at=min(
            started_at, idle.measured_from or started_at
        ),  # the start is the later one if the clock was set back
        lifetime_s=session.lifetime_s or DEADLINES_S[Status.RUNNING],
        lifetime_ends_at=None if is_own_limit(session) else session.deadline_at,
        max_idle_s=idle.max_idle_s,
        interacted_at=idle.interacted_at,
        measured_from=idle.measured_from,
        low_since=idle.low_since,
        use_grace_s=_shortest_s(group, group.use_grace_s, idle.use_grace_s),
        kept_until=idle.kept_until,
    )


def find_next_end(session: ComputeSession) -> NextEnd | None:
    """Return the next end of a running session; None if it is not running. No query.

    The session must have come with its group and `idle`, and `with_preemption` to include preemption.
    """
    if not session.is_running:
        return None
    idle = idle_row(session)
    if preempted_at := getattr(session, "preempted_at", None):
        return _next_end(session, idle, preempted_at, Cause.PREEMPTION.value, is_near=True)
    facts = idle_facts(session, idle)
    end = next((end for end in expected_ends(facts) if _is_shown(session, end)), None)
    own = session.deadline_at if is_own_limit(session) else None
    is_near = end is not None and idle.warned_of == end.at
    ends_at = None
    if end is not None:
        ends_at = earliest_end(end, idle.last_told_at) if is_near and idle.last_told_at else end.at
    is_own = own is not None and (ends_at is None or own <= ends_at)
    return _next_end(
        session,
        idle,
        own if is_own else ends_at,
        "" if is_own or end is None else end.cause.value,
        is_near=is_near and not is_own,
    )


def _next_end(
    session: ComputeSession, idle: SessionIdle, ends_at: datetime | None, cause: str, *, is_near: bool
) -> NextEnd:
    return NextEnd(
        ends_at=ends_at,
        cause=cause,
        is_near=is_near,
        is_soon=ends_at is not None and ends_at - clock.now() <= NEAR,
        interacted_at=idle.interacted_at,
        idle_since=idle_facts(session, idle).idle_since if idle.max_idle_s else None,
        max_idle_s=idle.max_idle_s,
        gap=str(Gap(idle.gap).label) if idle.max_idle_s and idle.gap else "",
        use=judge_utilization(session, idle),
    )


def _is_shown(session: ComputeSession, end: End) -> bool:
    """Return True if the end is shown: the default lifetime only once its owner was warned."""
    is_limited = end.cause is not Cause.LIFETIME or session.lifetime_s is not None
    return is_limited or idle_row(session).warned_of == end.at


def scopes_by_key(sessions: Iterable[ComputeSession]) -> Scopes:
    """Return the policies that limit these sessions, by (level, id).

    One query; none without sessions.
    """
    keys = {key for session in sessions for key in scope_keys(session)}
    return {(scope.level, scope.id): scope for scope in read_scopes(keys)} if keys else {}


def scope_keys(session: ComputeSession) -> list[tuple[Level, int]]:
    return ScopeIds(session.domain_id, session.project_id, session.owner_id, session.keypair_id).keys()


def limit_values(session: ComputeSession, scopes: Scopes, limit: Limit) -> list[int]:
    """Return the values of the limit at all levels that set it."""
    found = (scopes.get(key) for key in scope_keys(session))
    return [scope.limits[limit] for scope in found if scope is not None and limit in scope.limits]


def remaining_extension(session: ComputeSession, idle: SessionIdle, scopes: Scopes) -> Extension:
    """Return the remaining extensions under its group and policies."""
    group = session.resource_group
    return tightest_extension(
        used=idle.extensions,
        most=[group.max_extensions, *limit_values(session, scopes, Limit.EXTENSIONS)],
        lengths_s=[group.extension_s, *limit_values(session, scopes, Limit.EXTENSION)],
    )
