"""What a plan left open to all: one more session is decided on it alone, without those that were decided already."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType

from common.slots import ResourceSlots
from scheduler.engine.allowances import Account, Allowances
from scheduler.engine.columns import column_of
from scheduler.engine.companions import Host
from scheduler.engine.devices import less
from scheduler.engine.fleet import Fleet, UnknownSlot
from scheduler.engine.machines import Machines
from scheduler.engine.model import AgentView, Allowance, PendingSession, Placement, Plan, Snapshot
from scheduler.engine.shapes import Shape
from scheduler.engine.sharing import machines_of

NOT_HOSTED: Mapping[str, tuple[Host, ...]] = MappingProxyType({})


class Leftovers:
    """The agents of a snapshot as its plan left them.

    Whoever waits by that plan found no room, and goes on to find none until something becomes free, which nothing here
    counts on. So a newcomer may have what is left, as it might have in the plan, behind all others: but not on an agent of
    which anything is kept, of no limit what somebody needs for whom room is kept, and not while somebody of its placement group waits, or for the same limit.
    Sessions that find nothing here may find something by a whole plan. For a newcomer that found none a plan may keep room, and until one has, others would take it.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        decided: Plan | None,
        meanwhile: Iterable[Placement] = (),
        *,
        is_long: bool = False,
    ) -> None:
        """`decided`: None where nothing waited. `meanwhile`: what newcomers got since the snapshot was read; counted twice at
        worst. `is_long`: so many wait that one more of no higher priority is not taken for the first."""
        self.group_name = snapshot.group_name
        self.epoch = snapshot.epoch + (decided is not None)  # a commit adds one
        self.rules = snapshot.rules
        self.reservations = snapshot.reservations
        deferrals = decided.deferrals if decided else ()
        reservations = decided.reservations if decided else ()
        self.waiting = len(deferrals)
        self._snapshot = replace(snapshot, pending=(), allowances=(), tenants={}, companions={})
        self._placements = decided.placements if decided else ()
        self._meanwhile = tuple(meanwhile)
        # Somebody found no room for whom a plan may keep some: whoever comes later would pass.
        self.is_over = False
        self._kept = {agent_id for each in reservations for agent_id in each.agent_ids}
        # For whom limits are kept: whether room is as well, and whether it is known from when on.
        first = dict.fromkeys(decided.gathering if decided else (), (False, False))
        first |= {each.session_id: (True, each.starts_at is not None) for each in reservations}
        self._first = tuple((each, *first[each.id]) for each in snapshot.pending if each.id in first)
        reasons = {id(why): why for why in column_of(deferrals, "why")}
        exceeded = [why.excess for why in reasons.values() if why.excess]
        self._awaited = {key for each in exceeded for key in (each.allowance.key, *each.others)}
        self._groups = {why.companions.key for why in reasons.values() if why.companions}
        self._highest = _highest_of(snapshot, decided) if is_long else None
        self._room: tuple[Fleet, Machines] | None = None  # made when the first comes

    def place(
        self,
        newcomers: Iterable[PendingSession],
        allowances: tuple[Allowance, ...],
        now: datetime,
        companions: Mapping[str, tuple[Host, ...]] = NOT_HOSTED,
    ) -> list[Placement]:
        """Room for those of `newcomers` that find some, which nobody else gets from here any more. `allowances`: of their
        scopes, as they are now, as `companions` are, by whom the placement groups that they name are hosted. The higher priority goes first, then the oldest."""
        if self.is_over:
            return []
        fleet, machines = self.take_stock(now)
        machines.hosting.learn(companions)
        guards = fleet.layout.guards
        accounts_of = self._beside_first(Allowances(allowances, fleet.layout), fleet)
        placements = []
        for session in sorted(newcomers, key=lambda each: (-each.priority, each.enqueued_at, each.id)):
            shape, accounts = _shape_of(fleet, session), accounts_of(session.scopes)
            group = session.needs.companions
            is_awaited = not self._awaited.isdisjoint(session.scopes)
            is_awaited = is_awaited or (group is not None and group.key in self._groups)
            if shape is None or any((each.left - shape.total) & guards != guards for each in accounts):
                continue
            until = None if session.lasts is None else now + session.lasts
            agent_ids = None if is_awaited else machines.place(shape, until)
            if agent_ids is not None:
                for account in accounts:
                    account.left -= shape.total
                placements.append(Placement(session, agent_ids))
            elif (self._highest is None or session.priority > self._highest) and fleet.may_hold(shape):
                self.is_over = True
                break
        return placements

    def _beside_first(
        self, allowances: Allowances, fleet: Fleet
    ) -> Callable[[tuple[str, ...]], tuple[Account, ...]]:
        """The accounts of scopes, less what is set aside of them."""
        for session, has_room, is_known in self._first:
            total = fleet.layout.pack_known(session.needs.total)
            if has_room:
                of_owner_alone = not is_known and session.promised is None
                allowances.leave_to(session, total, of_owner_alone=of_owner_alone)
            else:
                allowances.gather(session, total)
        return allowances.of

    def take_stock(self, now: datetime) -> tuple[Fleet, Machines]:
        """What is left where. Only the first time takes as long as there are agents."""
        self._room = self._room or self._left(now)
        return self._room

    def _left(self, now: datetime) -> tuple[Fleet, Machines]:
        taken: dict[int, list[ResourceSlots]] = {}
        last = self._snapshot.last_agent_id
        for placement in chain(self._placements, self._meanwhile):
            last = placement.agent_ids[-1]
            for kernel in placement.kernels:
                taken.setdefault(kernel.agent_id, []).append(kernel.slots)
        agents = (agent for agent in self._snapshot.agents if agent.id not in self._kept)
        left = tuple(_without(agent, taken.get(agent.id)) for agent in agents)
        fleet = Fleet(replace(self._snapshot, agents=left, last_agent_id=last))
        return fleet, machines_of(fleet, now, self._snapshot.companions)


def _highest_of(snapshot: Snapshot, decided: Plan | None) -> int | None:
    """The highest priority of those that wait on."""
    placed = {each.session_id for each in decided.placements} if decided else set()
    return max((each.priority for each in snapshot.pending if each.id not in placed), default=None)


def _shape_of(fleet: Fleet, session: PendingSession) -> Shape | None:
    """None for one that asks for a slot that no agent has."""
    try:
        return fleet.shape_of(session.needs)
    except UnknownSlot:
        return None


def _without(agent: AgentView, taken: list[ResourceSlots] | None) -> AgentView:
    if taken is None:
        return agent
    free = agent.free - sum(taken[1:], taken[0])
    devices = tuple([less(each, [slots[each.slot_name] for slots in taken]) for each in agent.devices])
    return replace(agent, free=free, running=(), devices=devices)
