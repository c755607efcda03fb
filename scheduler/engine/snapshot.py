"""Input of the engine. Immutable; amounts in base units."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from common.values.resources import CPU, MEM, MILLI, ResourceSlots
from scheduler.engine.agent_views import AgentView
from scheduler.engine.values import (
    NO_RESERVATIONS,
    NO_SLOTS,
    Gang,
    GroupHost,
    Hardware,
    HostCriteria,
    PlacementGroup,
    Policy,
    Strategy,
)


@dataclass(frozen=True)
class Requirements:
    """Requirements of a session, independent of its owner. The engine evaluates equal ones once."""

    architecture: str
    kernels: tuple[ResourceSlots, ...]
    designated_agent_id: int | None = None
    reservations: frozenset[int] = NO_RESERVATIONS  # ids of those that it may use, now or later
    may_run_elsewhere: bool = False  # the designated agent is only preferred
    device_model: str = ""  # required model; "": any
    gang: Gang = Gang.ANYWHERE  # arrangement of several kernels
    placement_group: PlacementGroup | None = None  # its placement group
    device_mem_bytes: int = 0  # least memory of each device; 0: any
    device_api_version: int = 0  # least version that the driver supports, as 12040; 0: any
    linked_devices: bool = False  # the devices of each kernel must be linked with each other
    least_isolation: int = 0  # of a part of a device, as in `AgentView.isolation`; 0: any
    closed_agents: frozenset[int] = frozenset()  # where other projects share all devices with room
    storage_hosts: frozenset[str] = frozenset()  # of its folders

    def __post_init__(self) -> None:
        if not self.kernels:
            raise ValueError("A session needs at least one kernel.")
        for slots in self.kernels:
            if any(amount < 0 for amount in slots.values()):
                raise ValueError(f"A kernel asks for a negative amount: {slots}.")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Hash of most fields, computed once, as a pass looks up each session's requirements."""
        return hash((self.kernels, self.gang, self.placement_group, *self.host_criteria))

    @property
    def total(self) -> ResourceSlots:
        """Sum over all kernels."""
        first, *others = self.kernels
        return sum(others, first)

    @property
    def required_agent_id(self) -> int | None:
        """Id of the only agent that it may run on; None: any."""
        return None if self.may_run_elsewhere else self.designated_agent_id

    @property
    def host_criteria(self) -> HostCriteria:
        """Fields that decide which agents can host it; equal terms have equal hosts."""
        return self.hardware, self.required_agent_id, self.reservations

    @cached_property
    def hardware(self) -> Hardware:
        """Fields that a machine has or has not, whatever is free on it."""
        return (
            self.architecture, self.device_model, self.device_mem_bytes, self.device_api_version,
            self.least_isolation, self.linked_amounts, self.closed_agents, self.storage_hosts,
        )  # fmt: skip

    @property
    def names_devices(self) -> bool:
        """Return True if not all agents that offer the slots suit it."""
        _, *demands = self.hardware
        return any(demands)

    @cached_property
    def linked_amounts(self) -> tuple[tuple[str, int], ...]:
        """Amounts by slot that must be linked on one agent: of the largest kernel, or of all kernels
        if they share an agent. One device, or a part of it, needs no link.
        """
        if not self.linked_devices:
            return ()
        together = (self.total,) if self.gang is Gang.ONE_MACHINE else self.kernels
        names = dict.fromkeys(name for slots in together for name in slots if name not in (CPU, MEM))
        most = {name: max(slots[name] for slots in together) for name in names}
        return tuple([(name, amount) for name, amount in most.items() if amount > MILLI])

    def may_run_on(self, agent: AgentView) -> bool:
        """Return True if `agent` could host a kernel now, given capacity."""
        return self.suits(agent) and (
            agent.window is None or agent.window.reservation_id in self.reservations
        )

    def suits(self, agent: AgentView) -> bool:
        """Return True if `agent` could host it at any time."""
        return (
            agent.architecture == self.architecture
            and self.required_agent_id in (None, agent.id)
            and self.device_model in ("", agent.device_model)
            and self.device_mem_bytes <= agent.device_mem_bytes
            and self.device_api_version <= agent.device_api_version
            and self.least_isolation <= agent.isolation
            and agent.id not in self.closed_agents
            and self.storage_hosts <= agent.storage_hosts
            and all(amount <= agent.linked(name) for name, amount in self.linked_amounts)
        )

    def unreached_hosts(self, agents: Iterable[AgentView], least: int = 1) -> tuple[str, ...]:
        """Return the storage hosts that the agent which suits best does not reach; none if another
        demand keeps it off all agents, or at least `least` suit.
        """
        if not self.storage_hosts:
            return ()
        elsewhere = replace(self, storage_hosts=frozenset())
        hosts = [self.storage_hosts - agent.storage_hosts for agent in agents if elsewhere.suits(agent)]
        missing = [each for each in hosts if each]
        if len(hosts) - len(missing) >= least:
            return ()
        return tuple(sorted(min(missing, key=lambda each: (len(each), sorted(each)), default=())))


class PreemptionClaim(NamedTuple):
    """Preemption claim of a pending session: the agent, and the latest end of its victims."""

    agent_id: int
    until: datetime


class Accumulation(NamedTuple):
    """Agents on which capacity accumulates for a session with an unknown start: whatever becomes
    free there is reserved until it suffices. Chosen at `since`; chosen again at `until`, when it
    was expected to suffice.
    """

    session_id: UUID
    agent_ids: tuple[int, ...]
    since: datetime
    until: datetime

    def is_in_force_at(self, now: datetime) -> bool:
        return self.since <= now < self.until  # earlier: the clock was set back


@dataclass(frozen=True, slots=True)
class PendingSession:
    """One pending session. All of its kernels are placed, or none."""

    id: UUID
    enqueued_at: datetime
    requirements: Requirements
    kernel_ids: tuple[UUID, ...]  # one for each of `requirements.kernels`
    priority: int = 0  # higher goes first
    scopes: tuple[str, ...] = ()  # keys of the allowances that count it, the widest first
    tenants: tuple[str, ...] = ()  # keys of its fair-share entries: domain, project, owner
    max_runtime: timedelta | None = None  # maximum run time; None: unknown
    preemption_claim: PreemptionClaim | None = None
    head_rank: int = 0  # rank among the `heads` of the last plan, from 1; 0: none
    accumulation: Accumulation | None = None  # choice of the last plan

    def __post_init__(self) -> None:
        if len(self.kernel_ids) != len(self.requirements.kernels):
            raise ValueError(
                f"Session {self.id} names {len(self.kernel_ids)} kernels and needs {len(self.requirements.kernels)}."
            )


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one scope, and what its sessions have allocated. Slots missing in `limit` are
    unlimited.
    """

    key: str
    level: str  # domain, project, user, keypair; limits of the group: group, group_user
    name: str
    limit: Mapping[str, int]
    allocated: Mapping[str, int]
    is_exhausted: bool = False  # an exhausted budget: no session of the scope starts
    until: datetime | None = None  # end of the limit's hours; None: always in force


@dataclass(frozen=True, slots=True)
class Tenant:
    """Fair-share data of a domain, project or owner in a group."""

    weight: float = 1.0  # twice the weight, twice the share
    allocated: ResourceSlots = NO_SLOTS  # allocated in this group
    past_share: float = 0.0  # decayed average of its dominant share, 0 to 1

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"A weight must be above 0, not {self.weight}.")


@dataclass(frozen=True, slots=True)
class PreemptionRule:
    """Preemption rule of a group."""

    max_priority: int  # highest priority that may be preempted
    min_runtime: timedelta  # minimum run time of victims
    grace: timedelta  # notice


@dataclass(frozen=True, slots=True)
class Rules:
    """Scheduling rules of a resource group."""

    strategy: Strategy = Strategy.CONCENTRATED
    policy: Policy = Policy.FIFO
    ageing: timedelta | None = None  # waiting this long is worth one priority
    # Wait before a backfill reservation with an unknown start; with a known one it is made at once.
    patience: timedelta = timedelta(minutes=10)
    is_paused: bool = False  # nothing starts
    preemption: PreemptionRule | None = None  # None: nothing is ended for others
    # its own limits in force, as text: a cached snapshot with others is outdated
    limits: tuple[str, ...] = ()
    sandbox: str = ""  # of its sessions; agents without it are not schedulable


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One resource group at one instant. `epoch` grows with each committed plan and identifies the
    instant.
    """

    group_id: int
    group_name: str
    epoch: int
    agents: tuple[AgentView, ...]
    pending: tuple[PendingSession, ...]
    rules: Rules = Rules()
    quotas: tuple[Quota, ...] = ()  # quotas of scopes that have one
    tenants: Mapping[str, Tenant] = field(default_factory=dict)  # absent: weight 1, holds nothing
    last_agent_id: int = 0  # that got a kernel last; round-robin continues behind it
    # Reservation ids that a scope may use, by scope key.
    reservations: Mapping[str, frozenset[int]] = field(default_factory=dict)
    # Agents that host sessions of a placement group, by key of the groups that pending sessions
    # name.
    group_hosts: Mapping[str, tuple[GroupHost, ...]] = field(default_factory=dict)

    # By agent, {device: project} of devices of which one project alone gets parts.
    sharers: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    def reservations_for(self, scopes: Iterable[str]) -> frozenset[int]:
        """Return the ids of reservations that sessions of these scopes may use, now or later."""
        if not self.reservations:
            return NO_RESERVATIONS
        return NO_RESERVATIONS.union(*(self.reservations.get(key, ()) for key in scopes))
