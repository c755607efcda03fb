"""Ports of sessions: what the scheduler provides."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from accounts.quota import Level
from agents.models import ResourceGroup
from common.ports import Port
from common.slots import ResourceSlots
from sessions_app.models import ComputeSession

if TYPE_CHECKING:
    from sessions_app.forecast import Outlook, Prospect, Question
    from sessions_app.holds import Standing


class HoldRecorder(Protocol):
    def __call__(self, session_ids: Collection[UUID], standing: "Standing") -> None:
        """Record that these waiting sessions are held, or no longer, in the transaction that changed it."""


class StartForecaster(Protocol):
    """Answers about sessions that wait, or would wait. A module."""

    def foresee(self, question: "Question") -> "Outlook":
        """Return the outlook of a session that would be enqueued now."""

    def prospect_of(self, session: ComputeSession) -> "Prospect | None":
        """Return the prospect of a waiting session; None for one that waits in no queue."""

    def has_machine_for(
        self,
        group: ResourceGroup,
        keys: Collection[tuple[Level, int]],
        slots: ResourceSlots,
        architecture: str,
        device_model: str,
    ) -> bool:
        """Return whether a machine of the group could hold so much, were it empty. `device_model` "": any; `keys`
        are the scopes that limit the session."""


hold_recorder: Port[HoldRecorder] = Port("sessions_app.hold_recorder")
start_forecaster: Port[StartForecaster] = Port("sessions_app.start_forecaster")
