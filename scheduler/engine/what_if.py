"""What a pass says of one session alone, for whoever asks before it is there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.engine.plan import Deferral, Placement, Plan, Reservation
from scheduler.engine.snapshot import Gathering, PendingSession


@dataclass(frozen=True, slots=True)
class Foresight:
    """Either `placement` or `deferral` of the session, if one was asked about; of the others, what is placed and kept. `ahead`: the
    deferrals of those that wait before it (of all, if it does not wait), in their order, each found out when it is read: once, and
    before the same planner decides again."""

    placement: Placement | None
    deferral: Deferral | None
    ahead: Iterator[Deferral]
    placements: Sequence[Placement] = ()
    reservations: tuple[Reservation, ...] = ()
    gathered: tuple[Gathering, ...] = ()


def foresight_in(plan: Plan, session: PendingSession | None) -> Foresight:
    """The same of a plan that is there."""
    asked = session and session.id
    place = next((n for n, each in enumerate(plan.deferrals) if each.session_id == asked), None)
    return Foresight(
        placement=next((each for each in plan.placements if each.session is session), None),
        deferral=None if place is None else plan.deferrals[place],
        ahead=iter(plan.deferrals[:place]),
        placements=plan.placements,
        reservations=plan.reservations,
        gathered=plan.gathered,
    )
