"""Ports of sessions that the scheduler implements, and the values passed through them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from accounts.core.budget_arithmetic import BudgetState
from accounts.core.limits import Level, Scope
from agents.models import ResourceGroup
from agents.selectors import SlotCapacity
from common.ports import Port
from common.values.resources import ResourceSlots
from common.values.stored_message import StoredMessage
from sessions_app.core.queue_options import Hold
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import Reason
from sessions_app.models import ComputeSession


@dataclass(frozen=True, slots=True)
class HoldState:
    """Hold state of a session: in the queue, or the hold and its reason."""

    hold: Hold
    reason: Reason
    message: StoredMessage


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Result of the next tick for a hypothetical session.

    `agent`: "" for a session that would wait, at `position` in its group; `best_room` is then the
    free capacity of the best matching machine, in base units.
    """

    agent: str
    reason: str
    sentence: StoredMessage
    position: int | None = None
    best_room: ResourceSlots = field(default_factory=ResourceSlots)
    start_range: StartRange | None = None  # None: unknown
    # Role to contact if a limit or a priority prevents the start.
    who_may_raise: StoredMessage = field(default_factory=StoredMessage)
    # True if another group might help: no limit applies in every group, and it names no machine.
    waits_for_group: bool = False
    rooms: Mapping[str, SlotCapacity] | None = None  # of the group, by slot; None: not read
    lasts: timedelta = timedelta()  # expected runtime as it counts for reservations

    @property
    def starts_now(self) -> bool:
        return bool(self.agent)


Kind = tuple[int, int, str]  # owner, image, type: earlier sessions of the kind predict the runtime


@dataclass(frozen=True, slots=True)
class HypotheticalSession:
    """Hypothetical session to forecast.

    `scopes` and `budgets` are its current limits; `lasts_s` is its maximum runtime in seconds.
    """

    group: ResourceGroup
    architecture: str
    containers: tuple[ResourceSlots, ...]
    keys: Collection[tuple[Level, int]]
    scopes: Sequence[Scope]
    budgets: Sequence[BudgetState]
    lasts_s: int | None
    priority: int
    kind: Kind
    designated_agent_id: int | None = None
    may_run_elsewhere: bool = False
    device_model: str = ""
    device_mem_bytes: int = 0
    device_api_version: int = 0
    linked_devices: bool = False
    isolation: str = ""
    gang: str = "anywhere"  # where several containers may be
    storage_hosts: frozenset[str] = frozenset()  # of its folders
    placement_key: str = ""  # "": no placement group, or a new array
    placement_rule: str = ""


@dataclass(frozen=True, slots=True)
class WaitForecast:
    """Forecast for a waiting session: probable start, best free capacity, and other groups.

    `who_may_raise`: role to contact if a limit or a priority prevents the start. `other_groups`:
    groups in which it would start now.
    """

    start_range: StartRange | None = None  # None: unknown
    best_room: ResourceSlots = field(default_factory=ResourceSlots)
    who_may_raise: StoredMessage = field(default_factory=StoredMessage)
    waits_for_group: bool = False  # as in Outlook
    other_groups: Sequence[str] = ()
    lasts: timedelta = timedelta()  # expected runtime as it counts for reservations
    # Reason why the latest start is unknown; "" if it is known or the session does not wait for
    # capacity.
    unknown_because: StoredMessage = field(default_factory=StoredMessage)


class HoldRecorder(Protocol):
    def __call__(self, session_ids: Collection[UUID], state: "HoldState") -> None:
        """Record the new hold state of these waiting sessions, in the transaction that changed it."""


class StartForecaster(Protocol):
    """Forecasts of waiting or hypothetical sessions. Implemented by a module."""

    def forecast_start(self, question: "HypotheticalSession") -> "StartForecast":
        """Return the outlook of a session if it were enqueued now."""

    def forecast_wait(self, session: ComputeSession) -> "WaitForecast | None":
        """Return the prospect of a waiting session; None if it is in no queue."""


hold_recorder: Port[HoldRecorder] = Port("sessions_app.hold_recorder")

start_forecaster: Port[StartForecaster] = Port("sessions_app.start_forecaster")
