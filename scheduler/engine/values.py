"""Enumerations and aliases of the engine."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from common.values.resources import ResourceSlots


class PlacementRule(StrEnum):
    """Placement of a session relative to the others of its placement group."""

    SPREAD = "spread"  # prefers agents with the fewest of them
    PACK = "pack"  # prefers agents with some of them
    STRICT_SPREAD = "strict_spread"  # only agents with none of them
    STRICT_PACK = "strict_pack"  # only agents with some of them; the first one anywhere

    @property
    def is_spread(self) -> bool:
        return self in (PlacementRule.SPREAD, PlacementRule.STRICT_SPREAD)

    @property
    def is_strict(self) -> bool:
        return self in (PlacementRule.STRICT_SPREAD, PlacementRule.STRICT_PACK)


class PlacementGroup(NamedTuple):
    """Placement group by key, with the rule of the session that names it."""

    key: str
    rule: PlacementRule


class GroupHost(NamedTuple):
    """Agent, and the number of sessions of a placement group on it."""

    agent_id: int
    sessions: int


class Gang(StrEnum):
    """Arrangement of the kernels of a session; all of them start, or none."""

    ANYWHERE = "anywhere"
    ONE_MACHINE = "one_machine"  # one search for the total request
    SPREAD = "spread"  # each on another agent


NO_SLOTS = ResourceSlots()

NO_RESERVATIONS: frozenset[int] = frozenset()

# Assumed run time of sessions without a limit on agents that will be reserved; otherwise a
# reservation far ahead would block them until then.
ASSUMED_RUNTIME = timedelta(days=7)


class Strategy(StrEnum):
    """Preference among agents with capacity."""

    CONCENTRATED = "concentrated"  # the fullest: keeps whole agents free for large sessions
    DISPERSED = "dispersed"  # the emptiest: sessions disturb each other least
    ROUND_ROBIN = "round_robin"  # in turn, regardless of load


class Policy(StrEnum):
    """Order of pending sessions within one priority."""

    FIFO = "fifo"  # the oldest first
    LIFO = "lifo"  # the newest first
    DRF = "drf"  # owner with the smallest dominant share (dominant resource fairness)
    FAIR_SHARE = "fair_share"  # domain, then project, then owner with the least past and present use


class ReasonCode(StrEnum):
    """Reason for which a session stays pending. `scheduler/explain/messages.py` has the sentences."""

    GROUP_PAUSED = "group_paused"  # the group is paused by an administrator
    NO_AGENTS = "no_agents"  # no schedulable agent of this architecture
    AGENT_UNAVAILABLE = "agent_unavailable"  # the one agent it must run on is not schedulable
    STORAGE_UNREACHED = "storage_unreached"  # no agent reaches the storage hosts of its folders
    NO_SUCH_DEVICE = "no_such_device"  # no agent meets all demands on devices
    DEVICES_WITHHELD = "devices_withheld"  # fits only with devices that are withheld now, as by quarantine
    NEVER_FITS = "never_fits"  # not even on an empty group
    NO_CAPACITY = "no_capacity"  # more than is free in the group
    BUDGET_SPENT = "budget_spent"  # of its project or owner; starts with the next period
    LIMIT_REACHED = "limit_reached"  # a quota of its domain, project, owner or keypair is used up
    FRAGMENTED = "fragmented"  # free in total, but not where one kernel could use it, or not linked
    KEPT_FREE = "kept_free"  # free, but reserved for a session ahead
    PRIORITY = "priority"  # free, but all of it is reserved for sessions with a higher priority
    MAKING_ROOM = "making_room"  # preemptions for it are in progress
    PLACEMENT_RULE = "placement_rule"  # free, but excluded by its placement group
    RESERVATION = "reservation"  # free, but on agents that are reserved for others


class Demand(StrEnum):
    """Demand of a session on its devices."""

    MEMORY = "memory"  # of each device
    VERSION = "version"  # that the driver supports
    ISOLATION = "isolation"  # of a part of a device
    LINKS = "links"  # number of linked devices
    PROJECT = "project"  # a device of which no other project has parts


# Architecture, device model, least device memory, API version and isolation, by slot the amounts that
# must be linked, agents whose devices others share, and storage hosts.
Hardware = tuple[str, str, int, int, int, tuple[tuple[str, int], ...], frozenset[int], frozenset[str]]
HostCriteria = tuple[Hardware, int | None, frozenset[int]]

Fractions = tuple[tuple[int, float], ...]  # fractions of the group's total by slot number
