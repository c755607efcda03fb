"""Cancellation of a reservation, and the audit log's description of reservations."""

from collections.abc import Collection
from typing import Any

from agents.grantee import level_of, name_of
from agents.models import Agent, Reservation, ResourceGroup
from common.actors import Actor
from common.audit import audit_log


def cancel(actor: Actor, group: ResourceGroup, reservation: Reservation) -> None:
    """Delete the reservation and write it to the audit log.
    The caller must hold the lock of its group.
    """
    told = all_of(reservation, [each.agent for each in reservation.machines.all()])
    audit_log.record(actor=actor, action="agents.cancel_reservation", target=group, changes=told)
    reservation.delete()


def all_of(reservation: Reservation, machines: Collection[Agent]) -> dict[str, Any]:
    """Return a reservation for the audit log, with its grantee."""
    told, grantee = columns_of(reservation, machines), reservation.grantee
    return told if grantee is None else {**told, level_of(grantee): name_of(grantee)}


def columns_of(reservation: Reservation, machines: Collection[Agent]) -> dict[str, Any]:
    """Return a reservation for the audit log, without its grantee."""
    return {
        "name": reservation.name,
        "reason": reservation.reason,
        "starts_at": reservation.starts_at.isoformat(),
        "ends_at": reservation.ends_at.isoformat(),
        "agents": sorted(agent.name for agent in machines),
    }
