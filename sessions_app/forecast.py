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
from agents.selectors import SlotRoom, rooms
from common.actors import Actor
from common.kept_sentences import KeptSentence
from common.slots import ResourceSlots
from sessions_app import holds
from sessions_app.dependencies import hold_for
from sessions_app.limits import demand_within_limits, longest_lifetime_s, own_session_limit, owners_of
from sessions_app.requests import SessionRequest
from sessions_app.selectors import own_sessions
from sessions_app.services import ResolvedRequest, check_fits_somewhere, name_is_used, resolve_request

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

    @property
    def starts_now(self) -> bool:
        return bool(self.agent)


# (id of the resource group, architecture, slots of the one kernel, scopes whose limits hold, how long it may run in seconds,
# priority)
Foreseer = Callable[[int, str, ResourceSlots, Collection[tuple[Level, int]], int | None, int], Outlook]

_foreseers: list[Foreseer] = []


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer to a request that would be accepted. `live_sessions` are the actor's, this one not among them."""

    resolved: ResolvedRequest
    outlook: Outlook
    live_sessions: int
    live_limit: int | None
    budgets: Sequence[BudgetState]
    rooms: Mapping[str, SlotRoom]


def register(foreseer: Foreseer) -> None:
    """Have `foreseer` asked from now on, instead of whoever was. Called from AppConfig.ready."""
    _foreseers[:] = [foreseer]


def forecast_session(actor: Actor, request: SessionRequest) -> Forecast:
    """What would come of `request` now. Raises whatever enqueue_session raises for it. At most 20 queries, 12 more where there are budgets, any number of
    folders, machines and waiting sessions."""
    resolved = resolve_request(actor, request)
    check_fits_somewhere(actor, resolved)
    user_of(actor)
    scopes = demand_within_limits(actor, resolved.project, resolved.image, request, resolved.writable_folders)
    live_names = list(own_sessions(actor).live().values_list("name", flat=True))
    if request.name in live_names:
        raise name_is_used(request.name)
    return Forecast(
        resolved=resolved,
        outlook=_outlook(actor, resolved, request.timeout_s or longest_lifetime_s(scopes)),
        live_sessions=len(live_names),
        live_limit=own_session_limit(scopes),
        budgets=budget_states(owners_of(scope_ids(actor, resolved.project).keys())),
        rooms=rooms(actor, group_id=resolved.group.pk, architecture=resolved.image.architecture),
    )


def _outlook(actor: Actor, resolved: ResolvedRequest, lasts_s: int | None) -> Outlook:
    """Of a session that is held, only what holds it."""
    request = resolved.request
    standing = holds.standing_of(request.start_at, hold_for(resolved.dependencies))
    if standing.hold:
        return Outlook("", standing.reason.value, standing.message)
    (foresee,) = _foreseers
    scopes = scope_ids(actor, resolved.project).keys()
    return foresee(
        resolved.group.pk, resolved.image.architecture, request.slots, scopes, lasts_s, request.priority
    )
