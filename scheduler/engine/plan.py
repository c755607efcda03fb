"""Output of the engine: placements, deferrals, preemptions. Immutable; amounts in base units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import repeat
from typing import NamedTuple
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.agent_views import Closure
from scheduler.engine.snapshot import Accumulation, PendingSession, Quota
from scheduler.engine.values import NO_SLOTS, Demand, Gang, PlacementGroup, ReasonCode


@dataclass(frozen=True, slots=True)
class Excess:
    """Limit that a session would exceed: for the slots concerned, amounts requested, allocated and
    allowed.
    """

    quota: Quota
    requested: Mapping[str, int]
    allocated: Mapping[str, int]
    limit: Mapping[str, int]


class KernelPlacement(NamedTuple):
    kernel_id: UUID
    agent_id: int
    slots: ResourceSlots
    must_be_linked: bool = False  # its devices, with each other


class Placement(NamedTuple):
    """An agent for every kernel of one session."""

    session: PendingSession
    agent_ids: tuple[int, ...]  # one for each of `kernel_ids`

    @property
    def session_id(self) -> UUID:
        return self.session.id

    @property
    def kernels(self) -> Iterator[KernelPlacement]:
        session, requirements = self.session, self.session.requirements
        linked = repeat(bool(requirements.linked_amounts))
        return map(KernelPlacement, session.kernel_ids, self.agent_ids, requirements.kernels, linked)


@dataclass(frozen=True, slots=True)
class ReservedAgents:
    """Reserved agents with capacity that a session may not use: their number, and the end of the
    first such reservation. `starts_at`: its start, if it is in the future. `is_own`: the session
    may use it.
    """

    agents: int
    until: datetime
    starts_at: datetime | None = None
    is_own: bool = False


class FreeDevices(NamedTuple):
    """Free devices of one slot on agents with capacity for the rest of the request: the most whole
    devices of one agent, and the most of any one device.
    """

    slot_name: str
    whole: int
    most_of_one: int


class UnmetDemand(NamedTuple):
    """Demand on devices that no agent meets, of those that meet the demands before it in `Demand`:
    what is asked, and the most that one of them has. Links: amounts of `slot_name`.
    """

    demand: Demand
    asked: int
    most: int
    slot_name: str


class LinkedRoom(NamedTuple):
    """Amount of a slot that is asked in linked devices, and the most that is free so on an agent with
    capacity for the rest of the request.
    """

    slot_name: str
    asked: int
    most: int


@dataclass(frozen=True)
class Explanation:
    """Reason for which sessions with equal requirements stay pending, with the numbers that prove it."""

    reason: ReasonCode
    architecture: str
    kernel_count: int
    requested: ResourceSlots  # of all kernels
    requested_by_kernel: ResourceSlots  # of the largest kernel, of those that fit nowhere if there are any
    best_agent: ResourceSlots  # free on the nearest agent (never_fits: its capacity)
    group_total: ResourceSlots  # free on all possible agents (never_fits: their capacity)
    excess: Excess | None = None  # limit_reached, budget_spent
    ahead: int = 0  # priority: number of sessions with a higher one before it
    is_end_known: bool = False  # kept_free: a session that ends before a known time could use the capacity
    is_quota_reserved: bool = False  # kept_free: a quota is reserved, not capacity
    is_raise_enough: bool = True  # priority: one above theirs goes first; False with ageing
    until: datetime | None = None  # making_room: latest end of the preempted sessions
    reserved: ReservedAgents | None = None  # reservation: which agents
    is_host_gone: bool = False  # agent_unavailable: it could not run the session even if it took sessions
    closure: Closure | None = None  # no_agents, agent_unavailable: why none of its agents takes sessions
    device_model: str = ""  # requested model
    unmet: UnmetDemand | None = None  # no_such_device
    unreached_hosts: tuple[str, ...] = ()  # storage_unreached
    withheld: ResourceSlots = NO_SLOTS  # devices_withheld: those of the agents that could run it
    devices: FreeDevices | None = None  # fragmented: amounts suffice, single devices do not
    linked: LinkedRoom | None = None  # fragmented: enough devices are free, but not linked
    gang: Gang = Gang.ANYWHERE
    # Gang on one agent: `requested_by_kernel` is the total request. Spread gang: number of kernels that
    # get an agent each.
    agents_with_room: int = 0
    placement_group: PlacementGroup | None = None
    # placement_rule: number of agents that the rule excludes, or that host the group.
    host_count: int = 0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Hash of some fields, computed once, as each deferred session of a long queue looks one up."""
        quota = self.excess and self.excess.quota.key
        return hash((self.reason, self.architecture, self.requested, self.best_agent, self.ahead, quota))


class Deferral(NamedTuple):
    """A session that stays pending, with the reason."""

    session_id: UUID
    position: int  # 1 = first of the deferred sessions of the group
    explanation: Explanation

    @property
    def reason(self) -> ReasonCode:
        return self.explanation.reason


@dataclass(frozen=True, slots=True)
class BackfillReservation:
    """Backfill reservation: capacity reserved for the first session that found none."""

    session_id: UUID
    agent_ids: tuple[int, ...]  # where its kernels will run if nothing ends early
    starts_at: datetime | None  # at the latest; None: unknown


@dataclass(frozen=True, slots=True)
class Eviction:
    """Preemption of sessions on an agent for one with a higher priority."""

    session_id: UUID  # the preempting session
    agent_id: int
    victims: tuple[UUID, ...]
    ends_at: datetime  # not before


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement or deferral for each pending session, in the order in which they were tried.
    `heads`: sessions that the next plan tries first: the first with a backfill reservation whose
    start is known, or pinned heads of the last plan that have one again.
    """

    group_id: int
    group_name: str
    epoch: int
    planned_at: datetime
    placements: Sequence[Placement] = ()
    deferrals: Sequence[Deferral] = ()
    reservations: tuple[BackfillReservation, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    heads: tuple[UUID, ...] = ()
    # Accumulations among `reservations` (start unknown), and the last choice of other pending
    # sessions.
    accumulations: tuple[Accumulation, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Result of a forecast: `placement` or `deferral` of the session, if one was given, and
    placements and reservations of the pass. `ahead`: deferrals before it (all if it is not
    deferred) in order, computed when read; read them once, before the planner is used again.
    """

    placement: Placement | None
    deferral: Deferral | None
    ahead: Iterator[Deferral]
    placements: Sequence[Placement] = ()
    reservations: tuple[BackfillReservation, ...] = ()
    accumulations: tuple[Accumulation, ...] = ()
