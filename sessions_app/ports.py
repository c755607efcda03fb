"""Ports of sessions: what the scheduler provides, and the values that pass through them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from accounts.core.budget_arithmetic import BudgetState
from accounts.core.limits import Level, Scope
from agents.models import ResourceGroup
from agents.selectors import SlotRoom
from common.ports import Port
from common.values.resources import ResourceSlots
from common.values.stored_message import KeptSentence
from sessions_app.core.queue_options import Hold
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import Reason
from sessions_app.models import ComputeSession


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands that is asked for now: in the queue, or held for something."""

    hold: Hold
    reason: Reason
    message: KeptSentence


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the next tick would do. `agent` is "" for a session that would wait, as the `position`-th of its group;
    `best_room` is what the machine nearest to it has free then, in base units."""

    agent: str
    reason: str
    sentence: KeptSentence
    position: int | None = None
    best_room: ResourceSlots = field(default_factory=ResourceSlots)
    start_range: StartRange | None = None  # None: nobody can know
    # Whom to ask where a limit or a priority is in the way.
    who_may_raise: KeptSentence = field(default_factory=KeptSentence)
    # Another one might help: nothing holds it back in all, and it names no machine.
    waits_for_group: bool = False
    rooms: Mapping[str, SlotRoom] | None = None  # of the group, by slot; None: nobody looked
    lasts: timedelta = timedelta()  # as it counts where machines will be reserved

    @property
    def starts_now(self) -> bool:
        return bool(self.agent)


Kind = tuple[int, int, str]  # owner, image, type: how long such sessions ran says how long this one will


@dataclass(frozen=True, slots=True)
class Question:
    """One session that might be asked for. `scopes` and `budgets` are what limits it, as they are now; `lasts_s`: how long it may
    run."""

    group: ResourceGroup
    architecture: str
    slots: ResourceSlots
    keys: Collection[tuple[Level, int]]
    scopes: Sequence[Scope]
    budgets: Sequence[BudgetState]
    lasts_s: int | None
    priority: int
    kind: Kind
    designated_agent_id: int | None = None
    may_run_elsewhere: bool = False
    device_model: str = ""
    placement_key: str = ""  # of its placement group; "": none, or a new array
    placement_rule: str = ""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What may become of a session that waits in a queue: when it will probably start, what the machine nearest to it has free, whom
    to ask where a limit or a priority is in the way, and the groups in which it would start now."""

    start_range: StartRange | None = None  # None: nobody can know
    best_room: ResourceSlots = field(default_factory=ResourceSlots)
    who_may_raise: KeptSentence = field(default_factory=KeptSentence)
    waits_for_group: bool = False  # as above
    other_groups: Sequence[str] = ()
    lasts: timedelta = timedelta()  # as it counts where machines will be reserved
    # Why nobody can know how late it starts; "" where somebody can, or where it waits for something else than room.
    unknown_because: KeptSentence = field(default_factory=KeptSentence)


class HoldRecorder(Protocol):
    def __call__(self, session_ids: Collection[UUID], standing: "Standing") -> None:
        """Record that these waiting sessions are held, or no longer, in the transaction that changed it."""


class StartForecaster(Protocol):
    """Answers about sessions that wait, or would wait. A module."""

    def foresee(self, question: "Question") -> "Outlook":
        """Return the outlook of a session that would be enqueued now."""

    def prospect_of(self, session: ComputeSession) -> "Prospect | None":
        """Return the prospect of a waiting session; None for one that waits in no queue."""


hold_recorder: Port[HoldRecorder] = Port("sessions_app.hold_recorder")

start_forecaster: Port[StartForecaster] = Port("sessions_app.start_forecaster")
