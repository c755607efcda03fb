"""What the engine reads (Snapshot) and what it answers (Plan): immutable values, all amounts in base units."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.agent_views import AgentView as AgentView
from scheduler.engine.agent_views import Preemptible as Preemptible
from scheduler.engine.agent_views import Running as Running
from scheduler.engine.agent_views import Window as Window
from scheduler.engine.companions import Companions, Host
from scheduler.engine.gangs import Gang

NO_SLOTS = ResourceSlots()
NO_RESERVATIONS: frozenset[int] = frozenset()
# What nobody knows the length of counts as so long where an agent will be reserved: else one reservation far ahead would
# keep all that has no time limit from the agent until then.
LENGTH_OF_UNKNOWN = timedelta(days=7)


class Strategy(StrEnum):
    """Which of the agents with room gets a kernel."""

    CONCENTRATED = "concentrated"  # the fullest: keeps whole machines free for big sessions
    DISPERSED = "dispersed"  # the emptiest: sessions disturb each other least
    ROUND_ROBIN = "round_robin"  # one after the other, whatever they have free


class Policy(StrEnum):
    """In which order waiting sessions are tried, inside one priority."""

    FIFO = "fifo"  # the oldest first
    LIFO = "lifo"  # the newest first
    DRF = "drf"  # of the owner who holds least of what he holds most of (dominant resource fairness)
    FAIR_SHARE = "fair_share"  # of the domain, in it the project, in it the owner that held least lately


class ReasonCode(StrEnum):
    """Why a session goes on waiting. `scheduler/reasons.py` has a sentence for each."""

    GROUP_PAUSED = "group_paused"  # nothing starts in the group until an administrator lets it
    NO_AGENTS = "no_agents"  # nothing of this architecture takes sessions now
    AGENT_UNAVAILABLE = "agent_unavailable"  # the one agent it must run on takes none now
    NEVER_FITS = "never_fits"  # not even if everything in the group were free
    NO_CAPACITY = "no_capacity"  # more than the group has free
    BUDGET_SPENT = "budget_spent"  # of its project or owner; it starts when a new period begins
    LIMIT_REACHED = "limit_reached"  # what its domain, project, owner or token may hold is in use
    FRAGMENTED = "fragmented"  # the group has that much free, but not where one kernel could have it
    KEPT_FREE = "kept_free"  # there is room, but it is kept for a session ahead that needs more of it
    PRIORITY = "priority"  # the same, and all of it is kept for sessions with a higher priority
    MAKING_ROOM = "making_room"  # sessions of a lower priority are being ended for it
    PLACEMENT_RULE = "placement_rule"  # there is room, but not where its placement group lets it be
    RESERVATION = "reservation"  # there is room, but on machines that are reserved for others


HostTerms = tuple[str, str, int | None, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a session asks for, whoever asks. Sessions with equal needs should share one object: what the engine finds out
    about it, it finds out once a pass."""

    architecture: str
    kernels: tuple[ResourceSlots, ...]
    designated_agent_id: int | None = None
    reservations: frozenset[int] = NO_RESERVATIONS  # those that it may use, now or later
    may_run_elsewhere: bool = False  # the designated agent is where it is looked for room first
    device_model: str = ""  # of the agents that may host it; "": any
    gang: Gang = Gang.ANYWHERE  # where its kernels may be, if there are several
    companions: Companions | None = None  # in the placement group that it names

    def __post_init__(self) -> None:
        if not self.kernels:
            raise ValueError("A session needs at least one kernel.")
        for slots in self.kernels:
            if any(amount < 0 for amount in slots.values()):
                raise ValueError(f"A kernel asks for a negative amount: {slots}.")

    @property
    def total(self) -> ResourceSlots:
        """Of all kernels together."""
        first, *others = self.kernels
        return sum(others, first)

    @property
    def required_agent_id(self) -> int | None:
        """The only agent that it may run on; None: any that suits."""
        return None if self.may_run_elsewhere else self.designated_agent_id

    @property
    def host_terms(self) -> HostTerms:
        """All that the next two look at: who is alike in this has the same hosts."""
        return self.architecture, self.device_model, self.required_agent_id, self.reservations

    def may_run_on(self, agent: AgentView) -> bool:
        """Whether `agent` is one that could host a kernel now, were there room."""
        return self.suits(agent) and (
            agent.window is None or agent.window.reservation_id in self.reservations
        )

    def suits(self, agent: AgentView) -> bool:
        """Whether it could at any time."""
        return (
            agent.architecture == self.architecture
            and self.required_agent_id in (None, agent.id)
            and self.device_model in ("", agent.device_model)
        )


class Promise(NamedTuple):
    """Others are being ended for a waiting session: where, and until when at the latest."""

    agent_id: int
    until: datetime


class Gathering(NamedTuple):
    """Agents on which room is gathered for a session of which nobody knows when it will find some: whatever becomes free on these agents is kept
    until it suffices. Chosen at `since`; it is asked again at `until`, by when it was expected."""

    session_id: UUID
    agent_ids: tuple[int, ...]
    since: datetime
    until: datetime

    def holds_at(self, now: datetime) -> bool:
        return self.since <= now < self.until  # before: the clock was set


@dataclass(frozen=True, slots=True)
class PendingSession:
    """One waiting session; its kernels get agents all together or not at all."""

    id: UUID
    enqueued_at: datetime
    needs: Needs
    kernel_ids: tuple[UUID, ...]  # one for each of `needs.kernels`
    priority: int = 0  # higher goes first
    scopes: tuple[str, ...] = ()  # keys of the allowances that it counts against, the widest first
    tenants: tuple[str, ...] = ()  # keys of whose share it counts in: domain, project, owner
    lasts: timedelta | None = None  # at most, once it runs; None: nobody knows
    promised: Promise | None = None
    head_rank: int = 0  # its place among the `heads` of the last plan, from 1; 0: it is none of them
    gathered: Gathering | None = None  # as the last plan said

    def __post_init__(self) -> None:
        if len(self.kernel_ids) != len(self.needs.kernels):
            raise ValueError(
                f"Session {self.id} names {len(self.kernel_ids)} kernels and needs {len(self.needs.kernels)}."
            )


@dataclass(frozen=True, slots=True)
class Allowance:
    """What all sessions of one scope may hold together, and hold now. A slot that `limit` does not have is unlimited."""

    key: str
    level: str  # domain, project, user or keypair; of the group itself: group, or group_user
    name: str
    limit: Mapping[str, int]
    held: Mapping[str, int]
    is_spent: bool = False  # a budget of the scope is used up: none of its sessions starts
    until: datetime | None = None  # the limit holds; None: always


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a session would exceed: of the slots in question, what it asks, what is held and what may be."""

    allowance: Allowance
    asked: Mapping[str, int]
    held: Mapping[str, int]
    limit: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A domain, project or owner among those that share a group."""

    weight: float = 1.0  # twice the weight, twice the share
    held: ResourceSlots = NO_SLOTS  # in this group now
    lately: float = 0.0  # the dominant share of the group that it held on average lately, 0 to 1

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"A weight must be above 0, not {self.weight}.")


@dataclass(frozen=True, slots=True)
class Preemption:
    """Which sessions may be ended for those of a higher priority, and how."""

    up_to: int  # of this priority at most
    after: timedelta  # running for so long at least
    grace: timedelta  # from when that is decided


@dataclass(frozen=True, slots=True)
class Rules:
    """How a resource group decides."""

    strategy: Strategy = Strategy.CONCENTRATED
    policy: Policy = Policy.FIFO
    ageing: timedelta | None = None  # waiting this long is worth one priority
    # Room is kept for the first session that finds none: at once where it is known when there will be, else after this.
    patience: timedelta = timedelta(minutes=10)
    is_paused: bool = False  # nothing starts
    preemption: Preemption | None = None  # None: nothing is ended for others
    limits: tuple[str, ...] = ()  # its own that hold now, in words: pictures with others are old


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One resource group at one instant. `epoch` grows with each committed plan: it names this instant."""

    group_id: int
    group_name: str
    epoch: int
    agents: tuple[AgentView, ...]
    pending: tuple[PendingSession, ...]
    rules: Rules = Rules()
    allowances: tuple[Allowance, ...] = ()  # of scopes that limit what their sessions hold
    tenants: Mapping[str, Tenant] = field(default_factory=dict)  # absent: weight 1, holds nothing
    last_agent_id: int = 0  # that was given a kernel; behind it round-robin goes on
    # By key of a scope, what it may use.
    reservations: Mapping[str, frozenset[int]] = field(default_factory=dict)
    # By key of a placement group that somebody who waits names: who hosts some of it.
    companions: Mapping[str, tuple[Host, ...]] = field(default_factory=dict)

    def reservations_of(self, scopes: Iterable[str]) -> frozenset[int]:
        """Those that sessions of these scopes may use, now or later."""
        if not self.reservations:
            return NO_RESERVATIONS
        return NO_RESERVATIONS.union(*(self.reservations.get(key, ()) for key in scopes))


class KernelPlacement(NamedTuple):
    kernel_id: UUID
    agent_id: int
    slots: ResourceSlots


class Placement(NamedTuple):
    """An agent for every kernel of one session."""

    session: PendingSession
    agent_ids: tuple[int, ...]  # for each of its `kernel_ids`

    @property
    def session_id(self) -> UUID:
        return self.session.id

    @property
    def kernels(self) -> Iterator[KernelPlacement]:
        session = self.session
        return map(KernelPlacement, session.kernel_ids, self.agent_ids, session.needs.kernels)


@dataclass(frozen=True, slots=True)
class Reserved:
    """Agents with room that are reserved, and keep a session off: how many, and until when the first of them that it may use is.
    `starts_at`: when that one will be, if it is not yet. `is_own`: for the session too, which may use it from then on."""

    agents: int
    until: datetime
    starts_at: datetime | None = None
    is_own: bool = False


class DeviceRoom(NamedTuple):
    """What is free of the devices of one slot, one by one, on agents with room for the rest of what is asked: how much in whole devices
    of the agent with most, and the most of any one device."""

    slot_name: str
    whole: int
    most_of_one: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why sessions with equal needs go on waiting, with the numbers that show it."""

    reason: ReasonCode
    architecture: str
    kernel_count: int
    asked: ResourceSlots  # by all kernels together
    asked_by_kernel: ResourceSlots  # by its largest kernel, if there are such of those without room anywhere
    best_agent: ResourceSlots  # what the agent nearest to that has free (never_fits: has at all)
    group: ResourceSlots  # what all its possible agents have free together (never_fits: have at all)
    excess: Excess | None = None  # limit_reached: of what
    ahead: int = 0  # priority: how many with a higher one wait before it
    is_end_known: bool = False  # kept_free: whether what ends before a known time could have the room
    is_limit_kept: bool = False  # kept_free: whether it is a limit of its own that is kept for somebody
    is_raise_enough: bool = True  # priority: whether one above theirs goes first; where waiting counts, not
    until: datetime | None = None  # making_room: when the others have ended, at the latest
    reserved: Reserved | None = None  # reservation: where the room is
    is_host_gone: bool = False  # agent_unavailable: that agent could not run it even if it took sessions
    device_model: str = ""  # that it waits for
    devices: DeviceRoom | None = None  # fragmented: where amounts suffice and devices do not
    gang: Gang = Gang.ANYWHERE
    # Of a gang on one machine `asked_by_kernel` is what all ask together; of one that is spread, for how many there is a machine each.
    agents_with_room: int = 0
    companions: Companions | None = None
    # placement_rule: machines that have room and some of its group, or, where it is to be with them, that have some of them.
    hosts: int = 0


class Deferral(NamedTuple):
    """One session that goes on waiting, and why."""

    session_id: UUID
    position: int  # 1 = first of those that wait in this group
    why: Explanation

    @property
    def reason(self) -> ReasonCode:
        return self.why.reason


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that is kept for the first session that found none."""

    session_id: UUID
    agent_ids: tuple[int, ...]  # where its kernels will run, should nothing end earlier than expected
    starts_at: datetime | None  # at the latest; None: nobody knows when the room will be free


@dataclass(frozen=True, slots=True)
class Eviction:
    """Sessions that are ended because one of a higher priority needs what they hold on an agent."""

    session_id: UUID  # for which
    agent_id: int
    victims: tuple[UUID, ...]
    ends_at: datetime  # not before


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement or a deferral for each pending session of the snapshot, in the order they were tried. `heads`: whom the next plan is to try first, the
    first for whom room is kept of which it is known when it will be there; those of the last plan if it is for them."""

    group_id: int
    group_name: str
    epoch: int
    planned_at: datetime
    placements: Sequence[Placement] = ()
    deferrals: Sequence[Deferral] = ()
    reservations: tuple[Reservation, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    heads: tuple[UUID, ...] = ()
    # Of those `reservations` of which nobody knows when they begin, and the last choice of others that wait.
    gathered: tuple[Gathering, ...] = ()
