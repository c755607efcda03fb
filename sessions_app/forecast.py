"""What would become of a request: refused as creating it would be, or the machine it would get, or why it would wait.
Nothing is written.

Who decides lives a floor above: the scheduler registers a foreseer here, which asks its engine.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from accounts.budget_selectors import budget_states
from accounts.limits import scope_ids
from accounts.quota import Level
from accounts.selectors import user_of
from accounts.spending import BudgetState
from agents.group_rooms import groups_with_room
from agents.selectors import SlotRoom, rooms
from common.actors import Actor
from common.kept_sentences import KeptSentence
from common.slots import ResourceSlots
from sessions_app import holds
from sessions_app.dependencies import hold_for
from sessions_app.group_rules import takes
from sessions_app.limits import demand_within_limits, longest_lifetime_s, own_session_limit, owners_of
from sessions_app.models import ComputeSession
from sessions_app.requests import SessionRequest
from sessions_app.selectors import own_sessions
from sessions_app.services import ResolvedRequest, check_fits_somewhere, name_is_used, resolve_request
from sessions_app.start_ranges import StartRange
from sessions_app.states import Status

STARTS_NOW = "starts_now"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the next tick would do. `agent` is "" for a session that would wait, as the `position`-th of its group;
    `best_room` is what the machine nearest to it has free then, in base units."""

    agent: str
    reason: str
    sentence: KeptSentence
    position: int | None = None
    best_room: ResourceSlots = field(default_factory=ResourceSlots)
    start_range: StartRange | None = None  # None: nobody can know
    who_may_raise: KeptSentence = field(
        default_factory=KeptSentence
    )  # whom to ask where a limit is in the way

    @property
    def starts_now(self) -> bool:
        return bool(self.agent)


Kind = tuple[int, int, str]  # owner, image, type: how long such sessions ran says how long this one will
# (id of the resource group, architecture, slots of the one kernel, scopes whose limits hold, how long it may run in seconds,
# priority, kind)
Foreseer = Callable[
    [int, str, ResourceSlots, Collection[tuple[Level, int]], int | None, int, Kind | None], Outlook
]
Estimator = Callable[[ComputeSession], StartRange | None]

_foreseers: list[tuple[Foreseer, Estimator]] = []


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer to a request that would be accepted. `other_groups` have room for it now and nobody who waits; `live_sessions` are the actor's, this one not among them."""

    resolved: ResolvedRequest
    outlook: Outlook
    other_groups: Sequence[str]
    live_sessions: int
    live_limit: int | None
    budgets: Sequence[BudgetState]
    rooms: Mapping[str, SlotRoom]


def register(foreseer: Foreseer, estimator: Estimator) -> None:
    """Have these asked from now on, instead of whoever was. Called from AppConfig.ready."""
    _foreseers[:] = [(foreseer, estimator)]


def expected_start(session: ComputeSession) -> StartRange | None:
    """When a session that waits will probably start; None: nobody can know. At most 9 queries."""
    [(_foreseer, estimator)] = _foreseers
    return estimator(session)


def forecast_session(actor: Actor, request: SessionRequest) -> Forecast:
    """What would come of `request` now. Raises whatever enqueue_session raises for it. At most 22 queries, 12 more where there are budgets, any number of
    folders, machines and waiting sessions."""
    resolved = resolve_request(actor, request)
    check_fits_somewhere(actor, resolved)
    owner = user_of(actor)
    scopes = demand_within_limits(actor, resolved.project, resolved.image, request, resolved.writable_folders)
    live_names = list(own_sessions(actor).live().values_list("name", flat=True))
    if request.name in live_names:
        raise name_is_used(request.name)
    outlook = _outlook(
        actor, owner.pk, resolved, request.timeout_s or longest_lifetime_s(scopes, resolved.group)
    )
    return Forecast(
        resolved=resolved,
        outlook=outlook,
        other_groups=[] if outlook.starts_now else _other_groups(actor, resolved),
        live_sessions=len(live_names),
        live_limit=own_session_limit(scopes),
        budgets=budget_states(owners_of(scope_ids(actor, resolved.project).keys())),
        rooms=rooms(actor, group_id=resolved.group.pk, architecture=resolved.image.architecture),
    )


def _outlook(actor: Actor, owner_id: int, resolved: ResolvedRequest, lasts_s: int | None) -> Outlook:
    """Of a session that is held, only what holds it."""
    request = resolved.request
    standing = holds.standing_of(request.start_at, hold_for(resolved.dependencies))
    if standing.hold:
        return Outlook("", standing.reason.value, standing.message)
    [(foresee, _estimator)] = _foreseers
    kind = (owner_id, resolved.image.pk, request.type)
    scopes = scope_ids(actor, resolved.project).keys()
    return foresee(
        resolved.group.pk, resolved.image.architecture, request.slots, scopes, lasts_s, request.priority, kind
    )


def _other_groups(actor: Actor, resolved: ResolvedRequest) -> list[str]:
    """Where a machine has room for it now and nobody waits: it would start there at once. 2 queries."""
    request = resolved.request
    groups = groups_with_room(actor, resolved.project, request.slots, resolved.image.architecture)
    found = {group.pk: group.name for group in groups if group != resolved.group and takes(group, request)}
    waiting = ComputeSession.objects.filter(status=Status.PENDING.value, resource_group_id__in=found)
    busy = set(waiting.order_by().values_list("resource_group_id", flat=True).distinct())
    return [name for pk, name in found.items() if pk not in busy]
