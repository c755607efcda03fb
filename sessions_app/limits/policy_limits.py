"""What policies say of a request for a session (ADR 0024): refused now, never possible, or to wait until others of its scopes
end. The last is the scheduler's to say."""

from collections.abc import Collection, Mapping, Sequence

from accounts.budgets import selectors
from accounts.core import allow_lists
from accounts.core.limits import Level, Limit, LimitState, Scope, ceiling, exceeded, hits, never, not_raised
from accounts.limits import ScopeIds, check_room, scopes_of
from accounts.selectors import access_usable_project, may_do_everything
from accounts.tenancy.user_import import actor_for
from agents.models import ResourceGroup
from agents.selectors import access_resource_group
from common.actors import Actor
from common.values.resources import ResourceSlots
from images.allowed import lists_asked
from sessions_app.core.request import SessionRequest
from sessions_app.limits.group_rules import check_type_taken
from sessions_app.models import ComputeSession
from vfolders.models import VFolder
from vfolders.usage import scopes_of_folders


def check_allowed_again(session: ComputeSession) -> None:
    """What its policies, budgets, project and resource group say now of a session that would run once more. Raises NotFound,
    PermissionDenied, LimitExceeded, and InvalidInput for a type that its group takes no more."""
    actor = actor_for(session.owner)
    project = access_usable_project(actor, session.project.name)
    group = access_resource_group(actor, session.resource_group.name, project)
    check_type_taken(group, session.type)
    keys = ScopeIds(session.domain_id, session.project_id, session.owner_id, session.keypair_id).keys()
    mounts = session.mounts.filter(is_readonly=False).select_related("folder")
    scopes, full = load_scopes(keys, [mount.folder for mount in mounts if mount.folder])
    too_much = never(scopes, of_slots(Limit.SLOTS, session.slots))
    check_room(
        (*too_much, *hits(scopes, {Limit.PRIORITY.value: session.priority}), *full),
        selectors.refusals(selectors.budget_states(owners_of(keys))),
        allow_lists.refusals(scopes, lists_asked(session.image)),
    )


def load_scopes(
    keys: Collection[tuple[Level, int]], writable: Collection[VFolder]
) -> tuple[list[Scope], tuple[LimitState, ...]]:
    """Return these scopes, and the limits of bytes that the owners of the `writable` folders exceed already. One query."""
    holders = scopes_of_folders(writable)
    found = scopes_of({*keys, *holders})
    full = exceeded((scope for scope in found if (scope.level, scope.id) in holders), Limit.FOLDER_BYTES)
    return [scope for scope in found if (scope.level, scope.id) in keys], full


def owners_of(keys: Collection[tuple[Level, int]]) -> list[selectors.Owner]:
    """Those of these scopes that may have budgets."""
    return [key for key in keys if key[0] in (Level.PROJECT, Level.USER)]


def limit_hits(scopes: Sequence[Scope], request: SessionRequest, count: int = 1) -> tuple[LimitState, ...]:
    """Return every limit for which `count` sessions of this request are refused. Slots that other sessions hold are waited for."""
    return hits(scopes, requested_at_once(request, count)) + never(
        scopes, of_slots(Limit.SLOTS, request.slots)
    )


def requested_at_once(request: SessionRequest, count: int = 1) -> Mapping[str, int]:
    """Return the amounts by limit that count from the moment when so many sessions of it are enqueued."""
    asked = {Limit.SESSIONS.value: count, Limit.PENDING_SESSIONS.value: count, Limit.CONTAINERS.value: 1}
    if request.timeout_s is not None:
        asked[Limit.LIFETIME.value] = request.timeout_s
    waiting = of_slots(Limit.PENDING_SLOTS, request.slots)
    return {**asked, **{name: amount * count for name, amount in waiting.items()}}


def priority_hits(actor: Actor, scopes: Sequence[Scope], priority: int) -> tuple[LimitState, ...]:
    """Return every policy that allows less, and that none allows it at all, which superadmins need not."""
    none_allows = () if may_do_everything(actor) else not_raised(scopes, priority, who=actor.label)
    return none_allows or hits(scopes, {Limit.PRIORITY.value: priority})


def of_slots(limit: Limit, slots: ResourceSlots) -> dict[str, int]:
    return {limit.of_slot(name): amount for name, amount in slots.items()}


def longest_lifetime_s(scopes: Sequence[Scope], group: ResourceGroup) -> int | None:
    """How long the session may run: the tightest of all levels. It keeps that, whatever becomes of policies and group."""
    found = (ceiling(scopes, Limit.LIFETIME), group.max_lifetime_s)
    return min((seconds for seconds in found if seconds is not None), default=None)


def own_session_limit(scopes: Sequence[Scope]) -> int | None:
    """How many live sessions the person may have, by the policy of the person."""
    own = (scope for scope in scopes if scope.level == "user")
    return next((scope.limits.get(Limit.SESSIONS.value) for scope in own), None)
