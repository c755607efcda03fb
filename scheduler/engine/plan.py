"""Output of the engine: placements, deferrals, evictions. Immutable; amounts in base units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.snapshot import Allowance, Gathering, PendingSession
from scheduler.engine.values import Companions, Gang, ReasonCode


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a session would exceed: of the slots in question, what it asks, what is held and what may be."""

    allowance: Allowance
    asked: Mapping[str, int]
    held: Mapping[str, int]
    limit: Mapping[str, int]


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
