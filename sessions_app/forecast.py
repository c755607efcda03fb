"""What would become of a request: refused as creating it would be, or the machine it would get, or why it would wait.
Nothing is written.

The scheduler decides, which is an app above: it is asked by the port `start_forecaster`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any

from accounts.budget_selectors import budget_states, have_budgets
from accounts.limits import scope_ids
from accounts.models import Project
from accounts.quota import Level, Scope
from accounts.selectors import may_do_everything
from accounts.spending import BudgetState
from agents.group_rooms import Sought, with_room
from agents.models import ResourceGroup
from agents.selectors import SlotRoom, rooms, usable_resource_groups
from common import clock
from common.actors import Actor
from common.kept_sentences import KeptSentence
from common.prepared import columns_of, instance_of, parameter, prepared_cursor, said
from common.slots import ResourceSlots
from images.models import ContainerImage
from sessions_app import holds
from sessions_app.arrays import elements_of
from sessions_app.asked import some_actor
from sessions_app.dependencies import hold_for
from sessions_app.group_limits import refusing_now
from sessions_app.group_rules import takes
from sessions_app.limits import demand_within_limits, longest_lifetime_s, own_session_limit, owners_of
from sessions_app.models import ComputeSession
from sessions_app.placement_rules import key_of_group
from sessions_app.ports import start_forecaster
from sessions_app.requests import SessionRequest
from sessions_app.selectors import own_sessions
from sessions_app.services import (
    ResolvedRequest,
    check_enough_for_image,
    name_is_used,
    refuse_size,
    resolve_request,
)
from sessions_app.start_ranges import StartRange

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
    # Whom to ask where a limit or a priority is in the way.
    who_may_raise: KeptSentence = field(default_factory=KeptSentence)
    # Another one might help: nothing holds it back in all, and it names no machine.
    waits_for_group: bool = False
    rooms: Mapping[str, SlotRoom] | None = None  # of the group, by slot; None: nobody looked
    lasts: timedelta = timedelta()  # as it counts where machines will be reserved

    @property
    def starts_now(self) -> bool:
        return bool(self.agent)


Kind = tuple[int, int, str]  # owner, image, type: how long such sessions ran says how long this one will


@dataclass(frozen=True, slots=True)
class Question:
    """One session that might be asked for. `scopes` and `budgets` are what limits it, as they are now; `lasts_s`: how long it may
    run."""

    group: ResourceGroup
    architecture: str
    slots: ResourceSlots
    keys: Collection[tuple[Level, int]]
    scopes: Sequence[Scope]
    budgets: Sequence[BudgetState]
    lasts_s: int | None
    priority: int
    kind: Kind
    designated_agent_id: int | None = None
    may_run_elsewhere: bool = False
    device_model: str = ""
    placement_key: str = ""  # of its placement group; "": none, or a new array
    placement_rule: str = ""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What may become of a session that waits in a queue: when it will probably start, what the machine nearest to it has free, whom
    to ask where a limit or a priority is in the way, and the groups in which it would start now."""

    start_range: StartRange | None = None  # None: nobody can know
    best_room: ResourceSlots = field(default_factory=ResourceSlots)
    who_may_raise: KeptSentence = field(default_factory=KeptSentence)
    waits_for_group: bool = False  # as above
    other_groups: Sequence[str] = ()
    lasts: timedelta = timedelta()  # as it counts where machines will be reserved
    # Why nobody can know how late it starts; "" where somebody can, or where it waits for something else than room.
    unknown_because: KeptSentence = field(default_factory=KeptSentence)


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


def prospect_of(actor: Actor, session: ComputeSession) -> Prospect | None:
    """None for one that waits in no queue. Other groups are looked for where the actor is its owner. At most 14 queries, any number
    of rows."""
    prospect = start_forecaster.get().prospect_of(session)
    if prospect is None or not prospect.waits_for_group or session.owner_id != actor.user_id:
        return prospect
    slots, image = ResourceSlots(session.requested_slots), session.image
    asked = SessionRequest(
        name=session.name,
        project=session.project.name,
        image=image.reference,
        type=session.type,
        slots=slots,
        shm_bytes=session.shm_bytes,
        timeout_s=session.timeout_s,
        device_model=session.device_model,
    )
    others = _other_groups(actor, session.project, session.resource_group, image, asked, prospect.lasts)
    return replace(prospect, other_groups=others)


def forecast_session(actor: Actor, request: SessionRequest) -> Forecast:
    """What would come of `request` now. Raises whatever enqueue_session raises for it. At most 21 queries, 3 more where there are
    budgets, any number of folders, machines and waiting sessions; half of them where nothing
    of the group has changed since it was asked about. Rights and limits are read each time."""
    resolved = resolve_request(actor, request)
    check_enough_for_image(resolved)
    keys = scope_ids(actor, resolved.project).keys()
    has_machine_for = start_forecaster.get().has_machine_for
    architecture = resolved.image.architecture
    if not has_machine_for(resolved.group, keys, request.slots, architecture, request.device_model):
        refuse_size(actor, resolved)
    names = [each.name for each in elements_of(request)]
    owners = owners_of(keys)
    budgets = budget_states(owners) if have_budgets(owners) else []
    scopes = demand_within_limits(
        actor,
        resolved.project,
        resolved.image,
        request,
        resolved.writable_folders,
        count=len(names),
        budgets=budgets,
    )
    live_names = list(own_sessions(actor).live().values_list("name", flat=True))
    if used := next((name for name in names if name in live_names), ""):
        raise name_is_used(used)
    outlook = _outlook(
        resolved,
        Question(
            group=resolved.group,
            architecture=architecture,
            slots=request.slots,
            keys=keys,
            scopes=scopes,
            budgets=budgets,
            lasts_s=request.timeout_s or longest_lifetime_s(scopes, resolved.group),
            priority=request.priority,
            kind=(actor.user_id or 0, resolved.image.pk, request.type),
            designated_agent_id=resolved.agent.pk if resolved.agent else None,
            may_run_elsewhere=request.may_run_elsewhere,
            device_model=request.device_model,
            placement_key=key_of_group(resolved.project.pk, actor.user_id or 0, request.placement_group)
            if request.placement_group
            else "",
            placement_rule=request.placement_rule,
        ),
    )
    known = outlook.rooms
    return Forecast(
        resolved=resolved,
        outlook=outlook,
        other_groups=_other_groups(
            actor, resolved.project, resolved.group, resolved.image, request, outlook.lasts
        )
        if outlook.waits_for_group
        else [],
        live_sessions=len(live_names),
        live_limit=own_session_limit(scopes),
        budgets=budgets,
        rooms=rooms(actor, group_id=resolved.group.pk, architecture=architecture) if known is None else known,
    )


def _outlook(resolved: ResolvedRequest, question: Question) -> Outlook:
    """Of a session that is held, only what holds it."""
    held_by = hold_for(resolved.dependencies, resolved.project.pk)
    standing = holds.standing_of(resolved.request.start_at, held_by)
    if not standing.hold:
        standing = holds.standing_of_image(resolved.group, resolved.image) or standing
    if standing.hold:
        return Outlook("", standing.reason.value, standing.message)
    return start_forecaster.get().foresee(question)


def _other_groups(
    actor: Actor,
    project: Project,
    group: ResourceGroup,
    image: ContainerImage,
    request: SessionRequest,
    lasts: timedelta,
) -> list[str]:
    """Where a machine takes it now and nobody waits: it would start there at once. At most 4 queries."""
    taking = [each for each in _usable_groups(actor, project) if each != group and takes(each, request)]
    limiting = refusing_now(taking, request.type, actor.user_id or 0, request.slots, clock.now())
    others = {each.pk: each.name for each in taking if each.pk not in limiting}
    sought = Sought(
        slots=request.slots,
        architecture=image.architecture,
        scopes=scope_ids(actor, project),
        lasts=lasts,
        device_model=request.device_model,
        image=image.reference if image.registry_id is None else "",
    )
    roomy = with_room(others, sought)
    found = {pk: name for pk, name in others.items() if pk in roomy}
    if not found:
        return []
    waiting = ComputeSession.objects.waiting().filter(resource_group_id__in=found)
    busy = set(waiting.order_by().values_list("resource_group_id", flat=True).distinct())
    return [name for pk, name in found.items() if pk not in busy]


def _usable_groups(actor: Actor, project: Project) -> Iterator[ResourceGroup]:
    """Those in use in which the actor may start sessions in `project`, by name. One query."""
    values = {"user": actor.user_id or 0, "domain": actor.domain_id or 0, "project": project.pk}
    with prepared_cursor() as cursor:
        cursor.execute(_usable_statement(may_do_everything(actor)), values)
        rows = cursor.fetchall()
    return (found for row in rows if (found := instance_of(ResourceGroup, row)))


@cache
def _usable_statement(may_everything: bool) -> str:
    project: Any = Project(pk=parameter("project", "bigint"))
    usable = usable_resource_groups(some_actor(may_everything), project)
    return said(usable.filter(is_active=True).order_by("name"), columns_of(ResourceGroup))
