"""Reads of reservations, for the scheduler and for users.
Only users concerned by a reservation see its name, reason and grantee.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Q, QuerySet
from django.db.models.functions import JSONObject
from django.utils.translation import gettext as _

from accounts.selectors import own_project_ids, sees_everything
from agents.grantee import grantee_level, grantee_name
from agents.models import Reservation, ReservedAgent, ResourceGroup, ResourceGroupQuerySet
from common import clock
from common.actors import Actor
from common.errors import NotFound


def with_reserved_agents(groups: ResourceGroupQuerySet, now: datetime) -> ResourceGroupQuerySet:
    """Annotate each group with `reserved`, by start: {"agent", "reservation", "starts_at",
    "ends_at", "domain", "project", "user"} for each agent reserved at `now` and for the next
    reservation of each agent. No query of its own.
    """
    group_id = OuterRef(OuterRef("pk"))
    to_come = ReservedAgent.objects.filter(reservation__group=group_id, reservation__starts_at__gt=now)
    next_ones = to_come.order_by("agent_id", "reservation__starts_at").distinct("agent_id")
    begun = Q(reservation__starts_at__lte=now, reservation__ends_at__gt=now)
    machines = ReservedAgent.objects.filter(
        begun | Q(pk__in=next_ones.values("pk")), reservation__group=OuterRef("pk")
    ).order_by("reservation__starts_at", "pk")
    names = ("starts_at", "ends_at", "domain", "project", "user")
    reserved = JSONObject(
        agent="agent_id", reservation="reservation_id", **{name: f"reservation__{name}" for name in names}
    )
    return groups.annotate(reserved=ArraySubquery(machines.values(json=reserved)))


def current_reservations(group: ResourceGroup) -> QuerySet[Reservation]:
    """Reservations of the group that have not ended, by start, with their agents and grantees. 2
    queries.
    """
    return _with_parts(Reservation.objects.current(clock.now()).filter(group=group))


def _with_parts(reservations: QuerySet[Reservation]) -> QuerySet[Reservation]:
    whole = reservations.select_related("domain", "project__domain", "user")
    return whole.prefetch_related("machines__agent")


def access_reservation(group: ResourceGroup, reservation_id: int) -> Reservation:
    """Return a reservation of the group that has not ended. Raises NotFound."""
    reservation = current_reservations(group).filter(pk=reservation_id).first()
    if reservation is None:
        raise NotFound(_("“{name}” has no such reservation.").format(name=group.name))
    return reservation


def detailed_ids(actor: Actor, reservations: Iterable[Reservation]) -> set[int]:
    """Return the ids of reservations whose grantee and reason the actor may see: those for the
    actor, the actor's projects or domain; all for superadmins and monitors.
    """
    found = list(reservations)
    if sees_everything(actor):
        return {each.pk for each in found}
    projects = set(own_project_ids(actor)) if any(each.project_id for each in found) else set()
    return {
        each.pk
        for each in found
        if (each.user_id is not None and each.user_id == actor.user_id)
        or (each.domain_id is not None and each.domain_id == actor.domain_id)
        or each.project_id in projects
    }


def first_overlap(
    agent_ids: Iterable[int], starts_at: datetime, ends_at: datetime, *, but: int | None = None
) -> ReservedAgent | None:
    """Return the first of these agents that is reserved at some time in the period, with its
    reservation, ignoring reservation `but`. One query.
    """
    rows: Any = ReservedAgent.objects.filter(
        agent__in=list(agent_ids), reservation__starts_at__lt=ends_at, reservation__ends_at__gt=starts_at
    ).exclude(reservation=but)
    found: ReservedAgent | None = (
        rows.select_related("agent", "reservation").order_by("reservation__starts_at", "agent__name").first()
    )
    return found


def current_reservation(agent_id: int) -> Reservation | None:
    """Return the first reservation of the agent that has not ended, or None. One query."""
    found: Reservation | None = (
        Reservation.objects.current(clock.now()).filter(machines__agent=agent_id).first()
    )
    return found


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """A reservation as one actor may see it: name, reason and grantee are empty if it does not
    concern the actor. `level` is domain, project or user, or "" for maintenance.
    """

    id: int
    name: str
    reason: str
    starts_at: datetime
    ends_at: datetime
    level: str
    grantee: str
    agents: list[str]
    is_open: bool
    is_known: bool


def current_entries(actor: Actor, group: ResourceGroup) -> list[CalendarEntry]:
    """Return the reservations of a group that have not ended, as the actor may see them, by start.
    At most 3 queries.
    """
    return _entries(actor, current_reservations(group))


def calendar_entries(
    actor: Actor, group: ResourceGroup, begins_at: datetime, ends_at: datetime
) -> tuple[list[CalendarEntry], list[CalendarEntry]]:
    """Return two lists by start: the reservations that have not ended, as `current_entries` does, and
    those that overlap the period, ended ones included. At most 3 queries.
    """
    now = clock.now()
    between = Q(starts_at__lt=ends_at, ends_at__gt=begins_at)
    found = Reservation.objects.filter(between | Q(ends_at__gt=now), group=group)
    entries = _entries(actor, _with_parts(found))
    shown = [each for each in entries if each.starts_at < ends_at and each.ends_at > begins_at]
    return [each for each in entries if each.ends_at > now], shown


def access_entry(actor: Actor, group: ResourceGroup, reservation_id: int) -> CalendarEntry:
    """Return one reservation of the group as the actor may see it. Raises NotFound."""
    (entry,) = _entries(actor, [access_reservation(group, reservation_id)])
    return entry


def _entries(actor: Actor, reservations: Iterable[Reservation]) -> list[CalendarEntry]:
    now, found = clock.now(), list(reservations)
    known = detailed_ids(actor, found)
    return [
        CalendarEntry(
            id=each.pk,
            name=each.name if each.pk in known else "",
            reason=each.reason if each.pk in known else "",
            starts_at=each.starts_at,
            ends_at=each.ends_at,
            level=grantee_level(grantee) if (grantee := each.grantee) and each.pk in known else "",
            grantee=grantee_name(grantee) if grantee and each.pk in known else "",
            agents=sorted(machine.agent.name for machine in each.machines.all()),
            is_open=each.starts_at <= now,
            is_known=each.pk in known,
        )
        for each in found
    ]
