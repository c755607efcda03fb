"""What the engine reads (Snapshot) and what it answers (Plan): immutable values, all amounts in base units."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from common.slots import ResourceSlots

NO_SLOTS = ResourceSlots()


class Strategy(StrEnum):
    """Which of the agents with room gets a kernel."""

    CONCENTRATED = "concentrated"  # the fullest: keeps whole machines free for big sessions
    DISPERSED = "dispersed"  # the emptiest: sessions disturb each other least


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


class Running(NamedTuple):
    """What one kernel holds on an agent, and until when at the latest."""

    slots: ResourceSlots
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent. `free` = capacity − occupied; negative amounts count as zero."""

    id: int
    architecture: str
    capacity: ResourceSlots
    free: ResourceSlots
    is_schedulable: bool = True
    running: tuple[Running, ...] = ()  # of what is occupied, that whose end is known


@dataclass(frozen=True, slots=True)
class Needs:
    """What a session asks for, whoever asks. Sessions with equal needs should share one object: what the engine finds out
    about it, it finds out once a pass."""

    architecture: str
    kernels: tuple[ResourceSlots, ...]
    designated_agent_id: int | None = None

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

    def may_run_on(self, agent: AgentView) -> bool:
        """Whether `agent` is one that could host a kernel, were there room."""
        return agent.architecture == self.architecture and self.designated_agent_id in (None, agent.id)


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

    def __post_init__(self) -> None:
        if len(self.kernel_ids) != len(self.needs.kernels):
            raise ValueError(
                f"Session {self.id} names {len(self.kernel_ids)} kernels and needs {len(self.needs.kernels)}."
            )


@dataclass(frozen=True, slots=True)
class Allowance:
    """What all sessions of one scope may hold together, and hold now. A slot that `limit` does not have is unlimited."""

    key: str
    level: str  # domain, project, user or keypair
    name: str
    limit: Mapping[str, int]
    held: Mapping[str, int]
    is_spent: bool = False  # a budget of the scope is used up: none of its sessions starts


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
class Rules:
    """How a resource group decides."""

    strategy: Strategy = Strategy.CONCENTRATED
    policy: Policy = Policy.FIFO
    ageing: timedelta | None = None  # waiting this long is worth one priority
    # Room is kept for the first session that finds none: at once where it is known when there will be, else after this.
    patience: timedelta = timedelta(minutes=10)
    is_paused: bool = False  # nothing starts


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
class Explanation:
    """Why sessions with equal needs go on waiting, with the numbers that show it."""

    reason: ReasonCode
    architecture: str
    kernel_count: int
    asked: ResourceSlots  # by all kernels together
    asked_by_kernel: (
        ResourceSlots  # by its largest kernel, of those that no agent has room for if there are such
    )
    best_agent: ResourceSlots  # what the agent nearest to that has free (never_fits: has at all)
    group: ResourceSlots  # what all its possible agents have free together (never_fits: have at all)
    excess: Excess | None = None  # limit_reached: of what
    is_end_known: bool = False  # kept_free: whether what ends before a known time could have the room


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
class Plan:
    """A placement or a deferral for each pending session of the snapshot, in the order they were tried."""

    group_id: int
    group_name: str
    epoch: int
    planned_at: datetime
    placements: tuple[Placement, ...] = ()
    deferrals: tuple[Deferral, ...] = ()
    reservations: tuple[Reservation, ...] = ()
