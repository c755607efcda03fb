"""Values that the portal returns. Amounts are integers in base units: cpu millicores, mem bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from berth.decoding import Record

LIVE_STATUSES = ("PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING")
ENDED_STATUSES = ("TERMINATED", "CANCELLED", "ERROR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain(Record):
    name: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person(Record):
    """User that a token belongs to."""

    id: int
    email: str
    name: str
    role: str
    domain: Domain
    token: "OwnToken | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Record):
    id: int
    name: str
    title: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageApp(Record):
    """App that can be opened in sessions of an image."""

    name: str
    title: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(Record):
    id: int
    reference: str
    title: str = ""
    description: str = ""
    architecture: str = ""
    digest: str = ""
    size_bytes: int = 0
    registry: str | None = None
    is_allowed: bool = True
    objections: tuple[str, ...] = ()
    minimum: Mapping[str, float] = field(default_factory=dict)
    accelerators: tuple[str, ...] = ()
    min_cuda: str = ""
    apps: tuple[ImageApp, ...] = ()
    machines: int = 0
    machines_total: int = 0
    is_pinned: bool = False
    built_at: datetime | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair(Record):
    """API token. `token`, its text, is set only in the answer that creates or rotates it."""

    id: int
    name: str
    access_key: str
    scopes: tuple[str, ...] = ()
    is_active: bool = True
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_ip: str | None = None
    old_secret_until: datetime | None = None
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnToken(Record):
    """Token that the client uses."""

    id: int
    name: str
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Record):
    """Tightest limit of one quantity, with its level and the amounts used and left, in base units.

    For limits that begin with min_, `value` is the required minimum and nothing is used up. If the
    minimums of a policy are joint (`is_joint`), reaching one of them is enough.
    """

    limit: str
    level: str
    value: int
    used: int
    left: int
    scope: str = ""
    policy: str = ""
    is_joint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList(Record):
    """Allowed values on one level; an empty list allows nothing."""

    list: str
    level: str
    scope: str = ""
    policy: str = ""
    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Record):
    """Limits of a user. Quantities that are not listed are unlimited.

    `limits` are the tightest of all `levels`; all `allow_lists` apply together.
    """

    project: str = ""
    user: str = ""
    limits: tuple[Limit, ...] = ()
    levels: tuple[Limit, ...] = ()
    allow_lists: tuple[AllowList, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Record):
    """Session or array that must end first; exactly one of the ids is set.

    `when` is success, any or failure: the required outcome.
    """

    session: str | None = None
    array: str | None = None
    name: str = ""
    when: str = "success"
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Record):
    """Expected end of a running session if nothing changes.

    `cause` is lifetime, interaction, use or preemption, or "" for the session's own time limit.
    `why` is a sentence about it. `is_soon` means within 30 minutes. `gap` gives the reason if
    utilisation is not measured now.
    """

    ends_at: datetime | None = None
    cause: str = ""
    why: str = ""
    is_near: bool = False
    is_soon: bool = False
    interacted_at: datetime | None = None
    idle_since: datetime | None = None
    max_idle_s: int | None = None
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Record):
    """Resource policy, in base units; None is unlimited.

    In allow lists None allows everything, () nothing.
    """

    id: int
    name: str
    domain: str = ""
    is_default: bool = False
    max_sessions: int | None = None
    max_pending_sessions: int | None = None
    max_containers: int | None = None
    max_lifetime_s: int | None = None
    max_idle_s: int | None = None
    min_cpu_percent: int | None = None
    min_mem_percent: int | None = None
    min_device_percent: int | None = None
    min_device_mem_percent: int | None = None
    use_rule: str = "any"
    use_window_s: int | None = None
    use_grace_s: int | None = None
    max_extensions: int | None = None
    max_extension_s: int | None = None
    max_priority: int | None = None
    max_slots: Mapping[str, int] = field(default_factory=dict)
    max_pending_slots: Mapping[str, int] = field(default_factory=dict)
    max_folders: int | None = None
    max_folder_bytes: int | None = None
    max_keypairs: int | None = None
    max_requests: int | None = None
    max_browsers: int | None = None
    allowed_registries: tuple[str, ...] | None = None
    allowed_images: tuple[str, ...] | None = None
    allowed_storage_hosts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRange(Record):
    """Estimated start of a pending session, in seconds from now; `latest_s` None is unknown."""

    earliest_s: int
    latest_s: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect(Record):
    """Outlook of a pending session.

    `best_room` is the free capacity of the best fitting agent, in base units. In `other_groups` the
    session would start now.
    """

    expected_start: StartRange | None = None
    unknown_because: str = ""
    best_room: Mapping[str, int] = field(default_factory=dict)
    who_may_raise: str = ""
    other_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCheck(Record):
    """Result of checking a session request without submitting it. Amounts in base units."""

    starts_now: bool
    agent: str = ""
    reason: str = ""
    message: str = ""
    queue_position: int | None = None
    expected_start: StartRange | None = None
    best_room: Mapping[str, int] = field(default_factory=dict)
    who_may_raise: str = ""
    other_groups: tuple[str, ...] = ()
    resource_group: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyImpact(Record):
    """Effect of a policy change: users affected, users above the new limits, sessions that may end."""

    counts: Mapping[str, int] = field(default_factory=dict)
    above: tuple[Limit, ...] = ()
    above_count: int = 0
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Record):
    """Budget in its current period, or in its own dates. Amounts are exact decimals, as text."""

    id: int
    level: str
    owner: str
    unit: str
    amount: str
    spent: str
    left: str
    period: str
    first: str
    end: str
    warn_percent: int = 80
    is_hard: bool = False
    is_nearly_used_up: bool = False
    is_used_up: bool = False
    is_current: bool = True
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetImpact(Record):
    """Effect that a budget would have if it were saved."""

    people: int
    owner: str
    amount: str
    spent: str
    first: str
    end: str
    is_nearly_used_up: bool = False
    is_used_up: bool = False
    refuses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Record):
    """Price of one hour of one core, GiB or device, valid from a day in UTC."""

    id: int
    slot_name: str
    since: str
    per_hour: str
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContainer(Record):
    """One container of a session. `rank` 0 is main1, which runs the command."""

    name: str
    role: str = ""
    rank: int = 0
    agent: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    exit_code: int | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRecord(Record):
    """Folder mounted in a session."""

    folder: str
    path: str
    folder_id: str | None = None
    readonly: bool = False
    subpath: str = ""
    is_automatic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class App(Record):
    """App of a running session and its URL."""

    name: str
    url: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Record):
    """One status transition of a session."""

    to_status: str
    reason: str
    from_status: str = ""
    message: str = ""
    actor: str = ""
    happened_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Record):
    """File or directory in a folder or session. `kind` is file, directory, link or other."""

    name: str
    kind: str
    size_bytes: int = 0
    modified_at: datetime | None = None
    is_addressable: bool = True

    @property
    def is_directory(self) -> bool:
        return self.kind == "directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory(Record):
    """Entries of a directory. `is_complete` is False if it has more than the portal lists."""

    path: str
    entries: tuple[Entry, ...] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Record):
    """Entry that a search by name found, with its path in the folder."""

    path: str
    name: str
    kind: str
    size_bytes: int = 0
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperation(Record):
    """Copy, move or unpacking of files. `state` is waiting, running, done, failed or cancelled."""

    id: str
    kind: str
    state: str
    entries_done: int = 0
    bytes_done: int = 0
    paths: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    error: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state not in {"waiting", "running"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Record):
    size_bytes: int
    file_count: int | None
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """Live event: an object of this kind changed. `raw` has the ids."""

    kind: str
    event_id: str = ""
