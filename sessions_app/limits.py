"""What policies say of a request for a session (ADR 0024): refused now, never possible, or to wait until others of its scopes
end. The last is the scheduler's to say."""

from collections.abc import Collection, Mapping, Sequence

from accounts import allow_lists, budget_selectors
from accounts.limits import demand_room, scope_ids, scopes_of
from accounts.models import Project
from accounts.quota import Level, Limit, LimitState, Scope, ceiling, exceeded, hits, never, not_raised
from accounts.selectors import may_do_everything
from agents.models import ResourceGroup
from common.actors import Actor
from common.slots import ResourceSlots
from images.allowed import lists_asked
from images.models import ContainerImage
from sessions_app.requests import SessionRequest
from vfolders.models import VFolder
from vfolders.sizes import scopes_of_folders


def demand_within_limits(
    actor: Actor,
    project: Project,
    image: ContainerImage,
    request: SessionRequest,
    writable: Collection[VFolder] = (),
) -> list[Scope]:
    """The scopes that limit this request, with what they use. Two queries, 5 more where there are budgets. Raises LimitExceeded, which names
    every limit, every allow-list and every budget. `writable` are the folders that it may write into."""
    keys = scope_ids(actor, project).keys()
    scopes, full = _read(keys, writable)
    demand_room(
        (*refusals(scopes, request), *priority_refusals(actor, scopes, request), *full),
        budget_selectors.refusals(budget_selectors.budget_states(owners_of(keys))),
        allow_lists.refusals(scopes, lists_asked(image)),
    )
    return scopes


def demand_still_allowed(
    actor: Actor,
    project: Project,
    image: ContainerImage,
    request: SessionRequest,
    writable: Collection[VFolder] = (),
) -> None:
    """Asked again in the transaction that writes the session, after all that it waits for. One query. Raises LimitExceeded."""
    scopes, full = _read(scope_ids(actor, project).keys(), writable)
    demand_room(
        (*priority_refusals(actor, scopes, request), *full),
        lists=allow_lists.refusals(scopes, lists_asked(image)),
    )


def _read(
    keys: Collection[tuple[Level, int]], writable: Collection[VFolder]
) -> tuple[list[Scope], tuple[LimitState, ...]]:
    """These scopes, and the limits of bytes that whose folders are written are above already. One query."""
    holders = scopes_of_folders(writable)
    found = scopes_of({*keys, *holders})
    full = exceeded((scope for scope in found if (scope.level, scope.id) in holders), Limit.FOLDER_BYTES)
    return [scope for scope in found if (scope.level, scope.id) in keys], full


def owners_of(keys: Collection[tuple[Level, int]]) -> list[budget_selectors.Owner]:
    """Those of these scopes that may have budgets."""
    return [key for key in keys if key[0] in (Level.PROJECT, Level.USER)]


def refusals(scopes: Sequence[Scope], request: SessionRequest) -> tuple[LimitState, ...]:
    """Every limit for which the request is refused. That other sessions hold what it asks for is none: it waits for them."""
    return hits(scopes, asked_at_once(request)) + never(scopes, of_slots(Limit.SLOTS, request.slots))


def asked_at_once(request: SessionRequest) -> Mapping[str, int]:
    """What counts from the moment when it is enqueued."""
    asked = {Limit.SESSIONS.value: 1, Limit.PENDING_SESSIONS.value: 1, Limit.CONTAINERS.value: 1}
    if request.timeout_s is not None:
        asked[Limit.LIFETIME.value] = request.timeout_s
    return {**asked, **of_slots(Limit.PENDING_SLOTS, request.slots)}


def priority_refusals(
    actor: Actor, scopes: Sequence[Scope], request: SessionRequest
) -> tuple[LimitState, ...]:
    """Every policy that allows less, and that none allows it at all, which superadmins need not."""
    none_allows = () if may_do_everything(actor) else not_raised(scopes, request.priority, who=actor.label)
    return none_allows or hits(scopes, {Limit.PRIORITY.value: request.priority})


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
