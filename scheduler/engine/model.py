"""What the engine reads (Snapshot) and what it answers (Plan): frozen values, all amounts in base units."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from common.slots import ResourceSlots


class Strategy(StrEnum):
    """Which of the agents with room gets a kernel."""

    CONCENTRATED = "concentrated"  # the fullest: keeps whole machines free for big sessions
    DISPERSED = "dispersed"  # the emptiest: sessions disturb each other least


class Policy(StrEnum):
    """In which order waiting sessions are tried, inside one priority."""

    FIFO = "fifo"


class ReasonCode(StrEnum):
    """Why a session goes on waiting. `scheduler/reasons.py` has a sentence for each."""

    NO_AGENTS = "no_agents"  # nothing of this architecture takes sessions now
    AGENT_UNAVAILABLE = "agent_unavailable"  # the one agent it must run on takes none now
    NEVER_FITS = "never_fits"  # not even if everything in the group were free
    NO_CAPACITY = "no_capacity"  # more than the group has free
    BUDGET_SPENT = "budget_spent"  # of its project or owner; it starts when a new period begins
    LIMIT_REACHED = "limit_reached"  # what its domain, project, owner or token may hold is in use
    FRAGMENTED = "fragmented"  # the group has that much free, but not where one kernel could have it


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent. `free` = capacity − occupied; negative amounts count as zero."""

    id: int
    architecture: str
    capacity: ResourceSlots
    free: ResourceSlots
    is_schedulable: bool = True


@dataclass(frozen=True, slots=True)
class KernelRequest:
    id: UUID
    slots: ResourceSlots

    def __post_init__(self) -> None:
        if any(amount < 0 for amount in self.slots.values()):
            raise ValueError(f"Kernel {self.id} asks for a negative amount: {self.slots}.")


@dataclass(frozen=True, slots=True)
class PendingSession:
    """One waiting session; its kernels get agents all together or not at all."""

    id: UUID
    enqueued_at: datetime
    architecture: str
    kernels: tuple[KernelRequest, ...]
    priority: int = 0  # higher goes first
    designated_agent_id: int | None = None
    scopes: tuple[str, ...] = ()  # keys of the allowances that it counts against, the widest first

    def __post_init__(self) -> None:
        if not self.kernels:
            raise ValueError(f"Session {self.id} has no kernel to place.")

    @property
    def asked(self) -> ResourceSlots:
        """By all kernels together."""
        return sum((kernel.slots for kernel in self.kernels), ResourceSlots())

    def may_run_on(self, agent: AgentView) -> bool:
        """Whether `agent` is one that could host this session, were there room."""
        return agent.architecture == self.architecture and self.designated_agent_id in (None, agent.id)


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
class Snapshot:
    """One resource group at one instant. `epoch` grows with each committed plan: it names this instant."""

    group_id: int
    group_name: str
    epoch: int
    agents: tuple[AgentView, ...]
    pending: tuple[PendingSession, ...]
    strategy: Strategy = Strategy.CONCENTRATED
    policy: Policy = Policy.FIFO
    allowances: tuple[Allowance, ...] = ()  # of scopes that limit what their sessions hold


@dataclass(frozen=True, slots=True)
class KernelPlacement:
    kernel_id: UUID
    agent_id: int
    slots: ResourceSlots


@dataclass(frozen=True, slots=True)
class Placement:
    """An agent for every kernel of one session."""

    session_id: UUID
    kernels: tuple[KernelPlacement, ...]


@dataclass(frozen=True, slots=True)
class Deferral:
    """Why one session goes on waiting, with the numbers that show it."""

    session_id: UUID
    position: int  # 1 = first of those that wait in this group
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement or a deferral for each pending session of the snapshot, in the order they were tried."""

    group_id: int
    group_name: str
    epoch: int
    planned_at: datetime
    placements: tuple[Placement, ...] = ()
    deferrals: tuple[Deferral, ...] = ()
