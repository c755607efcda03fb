"""What the portal tells, as values. Amounts are integers in base units: cpu in millicores, mem in bytes."""

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
    """Whom a token belongs to."""

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
    """An app that can be opened in sessions of an image."""

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
    apps: tuple[ImageApp, ...] = ()
    built_at: datetime | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair(Record):
    """An API token. `token`, its text, is there once: after it was made or rotated."""

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
    """The token by which one asks."""

    id: int
    name: str
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Record):
    """The tightest limit of one thing: where it stands, what is used and left of it, in base units. Of what begins with min_ the value
    is the least, and nothing is used up; to reach another one of the policy is enough where they are joint."""

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
    """What one level lets be used; an empty list allows nothing."""

    list: str
    level: str
    scope: str = ""
    policy: str = ""
    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Record):
    """What is not named is unlimited. `limits` are the tightest of all `levels`; all `allow_lists` hold at once."""

    project: str = ""
    user: str = ""
    limits: tuple[Limit, ...] = ()
    levels: tuple[Limit, ...] = ()
    allow_lists: tuple[AllowList, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Record):
    """A session, or an array, that is to end before: in `when` way, success, any or failure. One of the ids is None."""

    session: str | None = None
    array: str | None = None
    name: str = ""
    when: str = "success"
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Record):
    """When a running session ends if nothing changes. `cause` is lifetime, interaction, use or preemption; empty: its own time
    limit; `why` says it in a sentence. `is_soon`: within 30 minutes. `gap` says why its use is not measured now."""

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
    """A resource policy, in base units; None is unlimited. Of what is allowed None is everything, () nothing."""

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
    """When a waiting session will probably start, in seconds from now; `latest_s` is None where nobody can know."""

    earliest_s: int
    latest_s: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect(Record):
    """What may become of a session that waits: `best_room` is what the machine nearest to it has free, in base units; in
    `other_groups` it would start now."""

    expected_start: StartRange | None = None
    unknown_because: str = ""
    best_room: Mapping[str, int] = field(default_factory=dict)
    who_may_raise: str = ""
    other_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCheck(Record):
    """What would come of a request. Amounts in base units."""

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
    """Whom a change would touch, who would be above the new limits, and whether running sessions may end by them."""

    counts: Mapping[str, int] = field(default_factory=dict)
    above: tuple[Limit, ...] = ()
    above_count: int = 0
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Record):
    """A budget in its present period; of a term in its own. Amounts are exact decimals, as text."""

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
    """What a budget would mean if it were saved."""

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
    """What an hour of one core, GiB or device costs from a day of UTC on."""

    id: int
    slot_name: str
    since: str
    per_hour: str
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRecord(Record):
    """A folder in a session."""

    folder: str
    path: str
    folder_id: str | None = None
    readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class App(Record):
    """An app of a running session and its address."""

    name: str
    url: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Record):
    """One change of a session's status."""

    to_status: str
    reason: str
    from_status: str = ""
    message: str = ""
    actor: str = ""
    happened_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Record):
    """A file or directory in a folder or session. `kind` is file, directory, link or other."""

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
    """What a directory holds; not complete where it holds more than the portal lists."""

    path: str
    entries: tuple[Entry, ...] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Record):
    size_bytes: int
    file_count: int
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """News: something of this kind changed. `raw` has the ids."""

    kind: str
    event_id: str = ""
