"""Writes of reservations; superadmins only."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from agents.events import CapacityChanged
from agents.grantee import Grantee, grantee_level, grantee_name
from agents.locks import lock_group_to_change
from agents.models import Agent, Reservation, ReservedAgent, ResourceGroup
from agents.ports import plan_discarder
from agents.reservations.selectors import access_reservation, first_overlap
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, InvalidInput
from common.messaging.events import publish
from common.values.text import quoted

MOST_AGENTS = 10_000  # in one request
LONGEST = timedelta(days=366)
FURTHEST = timedelta(days=366)
TOLERATED = timedelta(minutes=1)  # for a start that was "now" when it was typed


@transaction.atomic
def reserve_agents(  # noqa: PLR0913 -- all by name
    *,
    actor: Actor,
    group_id: int,
    name: str,
    agents: Collection[str],
    starts_at: datetime | None,
    ends_at: datetime,
    grantee: Grantee | None = None,
    reason: str = "",
) -> Reservation:
    """Reserve these agents of the group, by name, for a domain, project or user, or for maintenance
    without a grantee. Without `starts_at` it begins now. Raises NotFound, PermissionDenied,
    InvalidInput, Conflict.
    """
    group = lock_group_to_change(actor, group_id)
    now = clock.now()
    start = now if starts_at is None else max(starts_at, now - TOLERATED)
    if starts_at is not None and starts_at < start:
        raise InvalidInput.at(
            "starts_at", _("{time} UTC is past. Begin now or later.").format(time=_utc_text(starts_at))
        )
    _check(name, start, ends_at, now)
    machines = _machines(group, agents)
    _check_not_reserved(machines, start, ends_at)

    whom = {} if grantee is None else {grantee_level(grantee): grantee}
    reservation = Reservation.objects.create(
        group=group, name=name, reason=reason, starts_at=start, ends_at=ends_at, **whom
    )
    _save_machines(reservation, machines)
    changes = _audit_values(reservation, machines) | _grantee_values(reservation)
    audit_log.record(actor=actor, action="agents.reserve_agents", target=group, changes=changes)
    _replan(group)
    return reservation


@transaction.atomic
def change_reservation(  # noqa: PLR0913 -- all by name
    *,
    actor: Actor,
    group_id: int,
    reservation_id: int,
    name: str | None = None,
    reason: str | None = None,
    agents: Collection[str] | None = None,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
) -> Reservation:
    """Change the given fields of a reservation that has not ended. The grantee cannot change, nor
    the start after it has begun. Raises NotFound, PermissionDenied, InvalidInput, Conflict.
    """
    group = lock_group_to_change(actor, group_id)
    reservation = access_reservation(group, reservation_id)
    machines = [each.agent for each in reservation.machines.all()]
    before = _audit_values(reservation, machines)
    now = clock.now()
    _check_future(reservation, starts_at, ends_at, now)
    reservation.name = reservation.name if name is None else name
    reservation.reason = reservation.reason if reason is None else reason
    reservation.starts_at = starts_at or reservation.starts_at
    reservation.ends_at = ends_at or reservation.ends_at
    _check(reservation.name, reservation.starts_at, reservation.ends_at, now)
    if agents is not None:
        machines = _machines(group, agents)
    changes = audit_log.changed(before, _audit_values(reservation, machines))
    if not changes:
        return reservation

    _check_not_reserved(machines, reservation.starts_at, reservation.ends_at, but=reservation)
    reservation.save(update_fields=["name", "reason", "starts_at", "ends_at"])
    reservation.machines.all().delete()
    _save_machines(reservation, machines)
    audit_log.record(actor=actor, action="agents.change_reservation", target=group, changes=changes)
    _replan(group)
    return reservation


@transaction.atomic
def cancel_reservation(*, actor: Actor, group_id: int, reservation_id: int) -> None:
    """Cancel the reservation, so that everyone can use its agents again.
    Raises NotFound, PermissionDenied.
    """
    group = lock_group_to_change(actor, group_id)
    delete_reservation(actor, group, access_reservation(group, reservation_id))
    _replan(group)


def delete_reservation(actor: Actor, group: ResourceGroup, reservation: Reservation) -> None:
    """Delete the reservation and write it to the audit log. The caller must have locked its group."""
    machines = [each.agent for each in reservation.machines.all()]
    changes = _audit_values(reservation, machines) | _grantee_values(reservation)
    audit_log.record(actor=actor, action="agents.cancel_reservation", target=group, changes=changes)
    reservation.delete()


def _audit_values(reservation: Reservation, machines: Collection[Agent]) -> dict[str, Any]:
    return {
        "name": reservation.name,
        "reason": reservation.reason,
        "starts_at": reservation.starts_at.isoformat(),
        "ends_at": reservation.ends_at.isoformat(),
        "agents": sorted(agent.name for agent in machines),
    }


def _grantee_values(reservation: Reservation) -> dict[str, str]:
    grantee = reservation.grantee
    return {} if grantee is None else {grantee_level(grantee): grantee_name(grantee)}


def _save_machines(reservation: Reservation, machines: Collection[Agent]) -> None:
    """Save the agents of the reservation. Raises Conflict."""
    during = (reservation.starts_at, reservation.ends_at)
    try:
        with transaction.atomic():
            ReservedAgent.objects.bulk_create(
                ReservedAgent(reservation=reservation, agent=agent, during=during) for agent in machines
            )
    except IntegrityError as error:  # unreachable while every writer locks the group
        raise Conflict(_("Some of these machines are reserved at that time.")) from error


def _check_future(
    reservation: Reservation, starts_at: datetime | None, ends_at: datetime | None, now: datetime
) -> None:
    """Check that changed start and end are not in the past. Raises InvalidInput."""
    if ends_at is not None and ends_at <= now:
        sentence = _("{time} UTC is past. To end it now, cancel the reservation.")
        raise InvalidInput.at("ends_at", sentence.format(time=_utc_text(ends_at)))
    if starts_at is None or starts_at == reservation.starts_at:
        return
    if reservation.starts_at <= now:
        sentence = _("It began at {time} UTC, which stays.")
        raise InvalidInput.at("starts_at", sentence.format(time=_utc_text(reservation.starts_at)))
    if starts_at < now - TOLERATED:
        raise InvalidInput.at(
            "starts_at", _("{time} UTC is past. Begin now or later.").format(time=_utc_text(starts_at))
        )


def _check(name: str, starts_at: datetime, ends_at: datetime, now: datetime) -> None:
    """Check name and period. Raises InvalidInput."""
    if not name.strip():
        raise InvalidInput.at("name", _("Give it a name."))
    if ends_at <= starts_at:
        raise InvalidInput.at("ends_at", _("It has to end after it begins."))
    if starts_at - now > FURTHEST:
        sentence = _("{time} UTC is more than a year ahead. Give an earlier time.")
        raise InvalidInput.at("starts_at", sentence.format(time=_utc_text(starts_at)))
    if ends_at - starts_at > LONGEST:
        sentence = _(
            "A reservation lasts a year at most. For longer, put the machines into a group of their own."
        )
        raise InvalidInput.at("ends_at", sentence)


def _machines(group: ResourceGroup, names: Collection[str]) -> list[Agent]:
    """Return the agents of the group with these names. Raises InvalidInput."""
    if not names:
        raise InvalidInput.at("agents", _("Choose one machine at least."))
    found = list(group.agents.in_use().filter(name__in=names).order_by("pk"))
    missing = sorted(set(names) - {agent.name for agent in found})
    if missing:
        sentence = _("“{group}” has no machine {agent}.")
        raise InvalidInput.at("agents", sentence.format(group=group.name, agent=quoted(missing[0], 64)))
    return found


def _check_not_reserved(
    machines: Collection[Agent], starts_at: datetime, ends_at: datetime, *, but: Reservation | None = None
) -> None:
    """Check that no agent is reserved in the period, except by reservation `but`. Raises Conflict."""
    clash = first_overlap(
        [agent.pk for agent in machines], starts_at, ends_at, but=None if but is None else but.pk
    )
    if clash is None:
        return
    sentence = _("“{agent}” is reserved for “{name}” already, from {start} to {end} UTC.").format(
        agent=clash.agent.name,
        name=clash.reservation.name,
        start=_utc_text(clash.reservation.starts_at),
        end=_utc_text(clash.reservation.ends_at),
    )
    raise Conflict(
        sentence,
        hint=_("Choose another time or other machines, or cancel that reservation first."),
        fields={"agents": [sentence]},
    )


def _replan(group: ResourceGroup) -> None:
    """Discard plans made before, and have pending sessions reconsidered at once."""
    plan_discarder.get()([group.pk])
    publish(CapacityChanged(group.pk))


def _utc_text(instant: datetime) -> str:
    """Return the time in UTC, because inputs come in the user's time zone."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M}"
