"""Values of agents and resource groups: limits, queue, reservations, grants, ticks, preemptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.decoding import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(Record):
    """An agent: one machine with a container engine."""

    id: int
    name: str
    state: str
    resource_group: str = ""
    architecture: str = ""
    device_model: str = ""
    engine_version: str = ""
    sandboxes: tuple[str, ...] = ()
    maintenance_ends_at: datetime | None = None
    maintenance_reason: str = ""
    capacity: Mapping[str, int] = field(default_factory=dict)
    promised: Mapping[str, int] = field(default_factory=dict)
    occupied: Mapping[str, int] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    heartbeat_at: datetime | None = None

    @property
    def free(self) -> dict[str, int]:
        """Free amounts by slot: promised capacity minus allocated, at least 0."""
        promised = self.promised or self.capacity
        return {name: max(0, amount - self.occupied.get(name, 0)) for name, amount in promised.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOnMachine(Record):
    """One machine and one image. `state` is there, coming, waiting, failed or absent."""

    agent: str
    resource_group: str = ""
    state: str = ""
    image: Mapping[str, Any] | None = None
    transfer: Mapping[str, Any] | None = None

    @property
    def error(self) -> str:
        """Reason for which the image did not arrive the last time, or ""."""
        return str((self.transfer or {}).get("error", ""))

    @property
    def done_bytes(self) -> int:
        return int((self.transfer or {}).get("done_bytes", 0))

    @property
    def total_bytes(self) -> int:
        return int((self.transfer or {}).get("total_bytes", 0))

    @property
    def used_at(self) -> datetime | None:
        """Last start or end of a session with the image there; None: never."""
        text = (self.image or {}).get("used_at")
        return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTransfer(Record):
    """An image on its way to a machine. `state` is waiting, running, done or failed."""

    id: int
    agent: str
    state: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Record):
    """Accelerator of an agent. `percent` and `mem_bytes` are None if they were not measured."""

    id: int
    slot_name: str
    index: int
    agent: str = ""
    agent_id: int = 0
    device_id: str = ""
    model: str = ""
    state: str = ""
    withheld_because: str = ""
    warning: str = ""
    percent: int | None = None
    mem_bytes: int | None = None
    mem_total_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit(Record):
    """Limit of a resource group on allocated resources, in base units.

    `together` limits all its sessions, `each` the sessions of one user. Empty `session_types` means
    all types. `days` are 1 (Monday) to 7; without days the limit always applies.
    """

    name: str
    session_types: tuple[str, ...] = ()
    together: Mapping[str, int] = field(default_factory=dict)
    each: Mapping[str, int] = field(default_factory=dict)
    days: tuple[int, ...] = ()
    begins: str = ""
    ends: str = ""
    time_zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup(Record):
    id: int
    name: str
    description: str = ""
    is_default: bool = False
    is_active: bool = True
    is_public: bool = True
    strategy: str = ""
    scheduler: str = ""
    ageing_s: int | None = None
    patience_s: int = 0
    usage_half_life_s: int = 0
    preemptible_priority: int | None = None
    preemption_after_s: int = 0
    preemption_grace_s: int = 0
    session_types: tuple[str, ...] = ()
    max_session_slots: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[GroupLimit, ...] = ()
    cpu_overcommit: float = 1.0
    mem_overcommit: float = 1.0
    allows_rdma: bool = False
    allows_gpudirect_storage: bool = False
    sandbox: str = "runc"
    max_lifetime_s: int | None = None
    max_idle_s: int | None = None
    min_cpu_percent: int | None = None
    min_mem_percent: int | None = None
    min_device_percent: int | None = None
    min_device_mem_percent: int | None = None
    use_rule: str = "all"
    use_window_s: int = 0
    use_grace_s: int = 0
    ends_idle_batch: bool = False
    max_extensions: int = 0
    extension_s: int = 0
    agents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace(Record):
    """A pending session in the queue of a resource group.

    If the user may not see the session, `id` and `priority` are None, `name` is "" and `since` is
    rounded to the minute. Amounts are per container, in base units.
    """

    position: int
    id: str | None = None
    name: str = ""
    owner: str = ""
    is_own: bool = False
    resources: Mapping[str, int] = field(default_factory=dict)
    containers: int = 1
    priority: int | None = None
    since: datetime | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReservation(Record):
    """Reservation of agents. `level` is domain, project, user, or "" for maintenance.

    Name, reason and grantee of other users' reservations are "".
    """

    id: int
    name: str = ""
    reason: str = ""
    starts_at: datetime
    ends_at: datetime
    level: str = ""
    grantee: str = ""
    agents: tuple[str, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGrant(Record):
    """Domain, project or user that may use a resource group.

    `of` is its id; `name` of a user is the e-mail address.
    """

    id: int
    level: str
    of: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Record):
    """Result of one scheduler tick; times in microseconds.

    `reasons` counts the sessions that remained pending, by reason.
    """

    id: int
    planned_at: datetime
    read_us: int = 0
    decide_us: int = 0
    commit_us: int = 0
    placed: int = 0
    waiting: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    is_replayable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits(Record):
    """Wait times of the sessions that started in the last hour, in seconds; None if none started."""

    started: int = 0
    half_s: float | None = None
    nine_of_ten_s: float | None = None
    longest_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPreemption(Record):
    """Preemption of a session in favour of the session `by`. `outcome` is open, ended or spared."""

    session: str
    name: str
    by: str
    by_name: str
    agent: str
    decided_at: datetime
    ends_at: datetime
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay(Record):
    """Interval in which a session was pending for one reason; `until` None: it still is.

    `position` is its queue position at the start.
    """

    since: datetime
    until: datetime | None = None
    reason: str = ""
    message: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTick(Record):
    """Replay of the last complete scheduler tick before an instant."""

    planned_at: datetime
    position: int = 0
    waiting: int = 0
    placed: int = 0
    is_same: bool = True
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWait(Record):
    """Reason for which a session was pending at an instant."""

    at: datetime
    since: datetime
    reason: str = ""
    message: str = ""
    tick: PastTick | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Record):
    """Reasons for which a session was pending, oldest first.

    `wait` is the reason at the requested instant; None if it was not pending then.
    """

    stays: tuple[Stay, ...] = ()
    wait: PastWait | None = None
