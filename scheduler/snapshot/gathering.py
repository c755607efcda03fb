"""Convert accumulating limits and capacity (`Accumulation`) to and from the JSON of `SchedulerState`."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduler.engine import Accumulation


def accumulations_to_json(gathered: Iterable[Accumulation]) -> list[dict[str, Any]]:
    """Return the value of the column `SchedulerState.gathered`."""
    return [
        {
            "session": str(each.session_id),
            "agents": list(each.agent_ids),
            "since": each.since.isoformat(),
            "until": each.until.isoformat(),
        }
        for each in gathered
    ]


def accumulations_from_json(kept: Iterable[dict[str, Any]]) -> dict[UUID, Accumulation]:
    """Parse the column `SchedulerState.gathered`, as {session_id: Accumulation}."""
    found = [
        Accumulation(
            UUID(each["session"]),
            tuple(each["agents"]),
            datetime.fromisoformat(each["since"]),
            datetime.fromisoformat(each["until"]),
        )
        for each in kept
    ]
    return {each.session_id: each for each in found}
