"""Input of the engine. Immutable; amounts in base units."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.agent_views import AgentView
from scheduler.engine.values import (
    NO_RESERVATIONS,
    NO_SLOTS,
    Companions,
    Gang,
    Host,
    HostTerms,
    Policy,
    Strategy,
)


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
