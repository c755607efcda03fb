"""Machines, the groups that they belong to, and who waits for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from berth.decoding import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(Record):
    """A machine."""

    id: int
    name: str
    state: str
    resource_group: str = ""
    architecture: str = ""
    device_model: str = ""
    engine_version: str = ""
    capacity: Mapping[str, int] = field(default_factory=dict)
    promised: Mapping[str, int] = field(default_factory=dict)
    occupied: Mapping[str, int] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    heartbeat_at: datetime | None = None

    @property
    def free(self) -> dict[str, int]:
        """What is promised and not occupied, by slot."""
        promised = self.promised or self.capacity
        return {name: max(0, amount - self.occupied.get(name, 0)) for name, amount in promised.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit(Record):
    """What sessions of a resource group may hold `together`, and those of `each` person, in base units. It counts all where it names
    no types. `days` are 1 (Monday) to 7; without any it holds always."""

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
    """One that waits in a resource group; of sessions that you do not see, `id` and `priority` are None, `name` "", and `since` is the
    minute. Amounts are of each of its containers, in base units."""

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
    """Machines that are reserved; of others' reservations name, reason and grantee are "". `level` is domain, project, user, or
    "" for maintenance."""

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
    """A domain, project or person that may use a resource group; `of` is its number, `name` of a person the e-mail."""

    id: int
    level: str
    of: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Record):
    """What the scheduler decided in one tick; times in microseconds. `reasons`: how many went on waiting, by reason."""

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
    """How long the sessions that started in the last hour had waited, in seconds; None where none started."""

    started: int = 0
    half_s: float | None = None
    nine_of_ten_s: float | None = None
    longest_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPreemption(Record):
    """A session that had to leave for another one, `by`. `outcome` is open, ended or spared."""

    session: str
    name: str
    by: str
    by_name: str
    agent: str
    decided_at: datetime
    ends_at: datetime
    outcome: str
