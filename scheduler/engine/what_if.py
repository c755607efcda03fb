"""Decision of a pass about one session, for forecasts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.engine.plan import BackfillReservation, Deferral, Placement, Plan
from scheduler.engine.snapshot import Accumulation, PendingSession


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Result of a forecast: `placement` or `deferral` of the session, if one was given, and
    placements and reservations of the pass. `ahead`: deferrals before it (all if it is not
    deferred) in order, computed when read; read them once, before the planner is used again.
    """

    placement: Placement | None
    deferral: Deferral | None
    ahead: Iterator[Deferral]
    placements: Sequence[Placement] = ()
    reservations: tuple[BackfillReservation, ...] = ()
    accumulations: tuple[Accumulation, ...] = ()


def what_if_from(plan: Plan, session: PendingSession | None) -> WhatIf:
    """Extract the decision about one session from a complete plan."""
    asked = session and session.id
    place = next((n for n, each in enumerate(plan.deferrals) if each.session_id == asked), None)
    return WhatIf(
        placement=next((each for each in plan.placements if each.session is session), None),
        deferral=None if place is None else plan.deferrals[place],
        ahead=iter(plan.deferrals[:place]),
        placements=plan.placements,
        reservations=plan.reservations,
        accumulations=plan.accumulations,
    )
