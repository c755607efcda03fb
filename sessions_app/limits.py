"""What policies say of a request for a session (ADR 0024): refused now, never possible, or to wait until others of its scopes
end. The last is the scheduler's to say."""

from collections.abc import Collection, Mapping, Sequence

from accounts import allow_lists, budget_selectors
from accounts.importing import actor_for
from accounts.limits import ScopeIds, demand_room, scope_ids, scopes_of
from accounts.models import Project
from accounts.quota import Level, Limit, LimitState, Scope, ceiling, exceeded, hits, never, not_raised
from accounts.selectors import access_usable_project, may_do_everything
from accounts.spending import BudgetState
from agents.models import ResourceGroup
from agents.selectors import access_resource_group
from common.actors import Actor
from common.slots import ResourceSlots
from images.allowed import lists_asked
from images.models import ContainerImage
from sessions_app.group_rules import demand_type_taken
from sessions_app.models import ComputeSession
from sessions_app.requests import SessionRequest
from vfolders.models import VFolder
from vfolders.sizes import scopes_of_folders


def demand_within_limits(
    actor: Actor,
    project: Project,
    image: ContainerImage,
    request: SessionRequest,
    writable: Collection[VFolder] = (),
    *,
    count: int = 1,
    budgets: Sequence[BudgetState] | None = None,
    read: Sequence[Scope] | None = None,
) -> list[Scope]:
    """The scopes that limit `count` sessions of this request, with what they use. Two queries, 5 more where there are budgets. Raises
    LimitExceeded, which names every limit, every allow-list and every budget. `writable` are the folders that it may write into; `budgets` those
    that bind it and `read` its scopes, if they were read just now."""
    keys = scope_ids(actor, project).keys()
    scopes, full = _read(keys, writable, read)
    demand_room(
        (*refusals(scopes, request, count), *priority_refusals(actor, scopes, request.priority), *full),
        budget_selectors.refusals(
            budget_selectors.budget_states(owners_of(keys)) if budgets is None else budgets
        ),
        allow_lists.refusals(scopes, lists_asked(image)),
    )
    return scopes


def demand_room_in_folders(writable: Collection[VFolder]) -> None:
    """Asked again in the transaction that writes a session, which holds these folders. One query, none for no folder. Raises LimitExceeded."""
    _, full = _read((), writable, ())
    demand_room(full)


def demand_allowed_again(session: ComputeSession) -> None:
    """What its policies, budgets, project and resource group say now of a session that would run once more. Raises NotFound,
    PermissionDenied, LimitExceeded, and InvalidInput for a type that its group takes no more."""
    actor = actor_for(session.owner)
    project = access_usable_project(actor, session.project.name)
    group = access_resource_group(actor, session.resource_group.name, project)
    demand_type_taken(group, session.type)
    keys = ScopeIds(session.domain_id, session.project_id, session.owner_id, session.keypair_id).keys()
    mounts = session.mounts.filter(is_readonly=False).select_related("folder")
    scopes, full = _read(keys, [mount.folder for mount in mounts if mount.folder])
    too_much = never(scopes, of_slots(Limit.SLOTS, session.slots))
    demand_room(
        (*too_much, *hits(scopes, {Limit.PRIORITY.value: session.priority}), *full),
        budget_selectors.refusals(budget_selectors.budget_states(owners_of(keys))),
        allow_lists.refusals(scopes, lists_asked(session.image)),
    )


def _read(
    keys: Collection[tuple[Level, int]], writable: Collection[VFolder], read: Sequence[Scope] | None = None
) -> tuple[list[Scope], tuple[LimitState, ...]]:
    """These scopes, and the limits of bytes that whose folders are written are above already. One query, none where no folder is written
    and `read` are the scopes."""
    if read is not None and not writable:
        return list(read), ()
    holders = scopes_of_folders(writable)
    found = scopes_of({*keys, *holders})
    full = exceeded((scope for scope in found if (scope.level, scope.id) in holders), Limit.FOLDER_BYTES)
    return [scope for scope in found if (scope.level, scope.id) in keys], full


def owners_of(keys: Collection[tuple[Level, int]]) -> list[budget_selectors.Owner]:
    """Those of these scopes that may have budgets."""
    return [key for key in keys if key[0] in (Level.PROJECT, Level.USER)]


def refusals(scopes: Sequence[Scope], request: SessionRequest, count: int = 1) -> tuple[LimitState, ...]:
    """Every limit for which `count` sessions of this request are refused. That other sessions hold what it asks for is none: it waits for them."""
    return hits(scopes, asked_at_once(request, count)) + never(scopes, of_slots(Limit.SLOTS, request.slots))


def asked_at_once(request: SessionRequest, count: int = 1) -> Mapping[str, int]:
    """What counts from the moment when so many of it are enqueued."""
    asked = {Limit.SESSIONS.value: count, Limit.PENDING_SESSIONS.value: count, Limit.CONTAINERS.value: 1}
    if request.timeout_s is not None:
        asked[Limit.LIFETIME.value] = request.timeout_s
    waiting = of_slots(Limit.PENDING_SLOTS, request.slots)
    return {**asked, **{name: amount * count for name, amount in waiting.items()}}


def priority_refusals(actor: Actor, scopes: Sequence[Scope], priority: int) -> tuple[LimitState, ...]:
    """Every policy that allows less, and that none allows it at all, which superadmins need not."""
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
