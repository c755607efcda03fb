"""Checks a request against resource policies (ADR 0024): refused now, or never possible.

Limits that make a session wait are the scheduler's.
"""

from collections.abc import Collection, Mapping, Sequence

from accounts.budgets import selectors
from accounts.core import allow_lists
from accounts.core.limits import (
    Level,
    Limit,
    LimitState,
    Scope,
    priority_refusal,
    refused_limits,
    tightest_value,
    unsatisfiable_limits,
)
from accounts.limits import ScopeIds, check_limits, read_scopes
from accounts.selectors import access_usable_project, may_do_everything
from accounts.tenancy.user_import import user_actor
from agents.models import ResourceGroup
from agents.selectors import access_resource_group
from common.actors import Actor
from common.values.resources import ResourceSlots
from images.selectors import allow_list_values
from sessions_app.core.request import SessionRequest
from sessions_app.limits.group_rules import check_session_type
from sessions_app.models import ComputeSession
from vfolders.models import VFolder
from vfolders.quotas.selectors import policy_limits, scopes_of_folders, storage_limits


def check_retry_allowed(session: ComputeSession) -> None:
    """Check policies, budgets, project and group for a session that is to be retried.

    Raises NotFound, PermissionDenied, LimitExceeded, and InvalidInput if the group no longer admits
    its type.
    """
    actor = user_actor(session.owner)
    project = access_usable_project(actor, session.project.name)
    group = access_resource_group(actor, session.resource_group.name, project)
    check_session_type(group, session.type)
    keys = ScopeIds(session.domain_id, session.project_id, session.owner_id, session.keypair_id).keys()
    mounts = session.mounts.filter(is_readonly=False).select_related("folder__host")
    scopes, full = load_scopes(keys, [mount.folder for mount in mounts if mount.folder])
    too_much = unsatisfiable_limits(scopes, slot_limits(Limit.SLOTS, session.slots_of_all))
    check_limits(
        (*too_much, *refused_limits(scopes, {Limit.PRIORITY.value: session.priority}), *full),
        selectors.budget_refusals(selectors.budget_states(budget_owners(keys))),
        allow_lists.refusing_lists(scopes, allow_list_values(session.image)),
    )


def load_scopes(
    keys: Collection[tuple[Level, int]], writable: Collection[VFolder]
) -> tuple[list[Scope], tuple[LimitState, ...]]:
    """Return the scopes, and the exceeded byte limits of `writable` folders, their owners and hosts.
    One query, and those of `storage_limits`.
    """
    holders = scopes_of_folders(writable)
    found = read_scopes({*keys, *holders})
    of_holders = policy_limits(scope for scope in found if (scope.level, scope.id) in holders)
    full = tuple(state for state in (*of_holders, *storage_limits(writable)) if state.over)
    return [scope for scope in found if (scope.level, scope.id) in keys], full


def budget_owners(keys: Collection[tuple[Level, int]]) -> list[selectors.Owner]:
    """Return the scopes that may have budgets."""
    return [key for key in keys if key[0] in (Level.PROJECT, Level.USER)]


def exceeded_limits(
    scopes: Sequence[Scope], request: SessionRequest, count: int = 1
) -> tuple[LimitState, ...]:
    """Return every limit that refuses `count` sessions of this request.

    Slots allocated to other sessions do not count: the session waits for them.
    """
    return refused_limits(scopes, requested_amounts(request, count)) + unsatisfiable_limits(
        scopes, slot_limits(Limit.SLOTS, request.total_slots)
    )


def requested_amounts(request: SessionRequest, count: int = 1) -> Mapping[str, int]:
    """Return the amounts by limit that count as soon as `count` sessions are enqueued."""
    asked = {
        Limit.SESSIONS.value: count,
        Limit.PENDING_SESSIONS.value: count,
        Limit.CONTAINERS.value: request.cluster_size,
    }
    if request.timeout_s is not None:
        asked[Limit.LIFETIME.value] = request.timeout_s
    waiting = slot_limits(Limit.PENDING_SLOTS, request.total_slots)
    return {**asked, **{name: amount * count for name, amount in waiting.items()}}


def exceeded_priority_limits(actor: Actor, scopes: Sequence[Scope], priority: int) -> tuple[LimitState, ...]:
    """Return every policy that allows only a lower priority.

    If no central policy (`Scope.is_central`) allows a priority above 0, returns that refusal
    instead; superadmins need none.
    """
    none_allows = () if may_do_everything(actor) else priority_refusal(scopes, priority, who=actor.label)
    return none_allows or refused_limits(scopes, {Limit.PRIORITY.value: priority})


def slot_limits(limit: Limit, slots: ResourceSlots) -> dict[str, int]:
    return {limit.of_slot(name): amount for name, amount in slots.items()}


def max_lifetime_s(scopes: Sequence[Scope], group: ResourceGroup) -> int | None:
    """Return the maximum lifetime in seconds, the minimum of all levels and the group, or None.

    The session keeps it even if policies or the group change.
    """
    found = (tightest_value(scopes, Limit.LIFETIME), group.max_lifetime_s)
    return min((seconds for seconds in found if seconds is not None), default=None)


def own_session_limit(scopes: Sequence[Scope]) -> int | None:
    """Return the maximum number of live sessions by the user's own policy, or None."""
    own = (scope for scope in scopes if scope.level == "user")
    return next((scope.limits.get(Limit.SESSIONS.value) for scope in own), None)
