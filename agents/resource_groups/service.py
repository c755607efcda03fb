"""Writes of resource groups, their access grants and their agents; superadmins only."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.admission_gate import precede_admissions
from accounts.selectors import require_superadmin
from agents.capacity.overcommit import promise
from agents.events import CapacityChanged
from agents.grantee import Grantee, level_of, name_of
from agents.locks import hold_to_change
from agents.models import Agent, GroupGrant, ResourceGroup
from agents.ports import excluded_sessions, plan_discarder, session_counts
from agents.reservations.cancel import cancel
from agents.reservations.selectors import reservations_of, reserved_at_all
from agents.resource_groups.session_end_rules import ENDS, contradictions
from agents.selectors import access_agent, access_group, grants_of
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.db.connection import constraint_of
from common.errors import Conflict, InvalidInput, NotFound
from common.messaging.events import publish

FACTORS = ("cpu_overcommit", "mem_overcommit")

EDITABLE = (
    "name", "description", "is_default", "is_active", "is_public", "strategy", "scheduler", "ageing_s", "patience_s",
    "usage_half_life_s", "preemptible_priority", "preemption_after_s", "preemption_grace_s",
    "session_types", "max_session_slots", "limits", *FACTORS, *ENDS,
)  # fmt: skip

ADMITTING = ("is_public", "session_types")

SHOWN = 5


@transaction.atomic
def create_resource_group(*, actor: Actor, name: str, **columns: Any) -> ResourceGroup:
    """Create a group without agents; `columns` are of EDITABLE. A new default group replaces the
    present one. Raises PermissionDenied, InvalidInput, Conflict (another group became the default
    concurrently).
    """
    require_superadmin(actor)
    group = ResourceGroup(name=name, **columns)
    if group.is_default:
        _take_default(actor, None)
    _check(group)
    _check_ends(group)

    _save(group)
    audit_log.record(actor=actor, action="agents.create_resource_group", target=group, changes=_values(group))
    return group


@transaction.atomic
def update_resource_group(*, actor: Actor, group_id: int, changes: Mapping[str, Any]) -> ResourceGroup:
    """Change these columns of EDITABLE; a new default group replaces the present one. Pending
    sessions are reconsidered at once, and get a queue hold if they are not accepted any more.
    Raises NotFound, PermissionDenied, InvalidInput, Conflict.
    """
    hold = _hold_as_default if changes.get("is_default") else hold_to_change
    group = hold(actor, group_id)
    before = _values(group)
    if group.is_default and changes.get("is_default") is False:
        raise Conflict(
            _("“{name}” is the default resource group.").format(name=group.name),
            hint=_("Make another one the default instead."),
        )
    for column, value in changes.items():
        setattr(group, column, value)
    _check(group)
    changed = audit_log.changed(before, _values(group))
    if not changed.keys().isdisjoint(ENDS):
        _check_ends(group)

    if changed:
        plan_discarder.get()([group.pk])  # plans made under the old policy must not be committed
        _save(group, update_fields=list(changed))
        audit_log.record(actor=actor, action="agents.update_resource_group", target=group, changes=changed)
        if not changed.keys().isdisjoint(ADMITTING):
            excluded_sessions.get().hold_excluded_sessions(group.pk)
        if not changed.keys().isdisjoint(FACTORS):
            promise(group.agents.values_list("pk", flat=True))
        publish(CapacityChanged(group.pk))
    return group


@transaction.atomic
def delete_resource_group(*, actor: Actor, group_id: int) -> None:
    """Delete the group and its reservations; ended sessions keep its name. Raises NotFound,
    PermissionDenied, Conflict (agents, pending or running sessions, or the default group while
    there are others).
    """
    group = hold_to_change(actor, group_id)
    if group.is_default and ResourceGroup.objects.present().exclude(pk=group.pk).exists():
        raise Conflict(
            _("“{name}” is the default resource group.").format(name=group.name),
            hint=_("Make another one the default first."),
        )
    _demand_no_machines(group)
    _demand_no_sessions(group)

    group.deleted_at, group.is_default, group.is_active = clock.now(), False, False
    group.save(update_fields=["deleted_at", "is_default", "is_active"])
    group.grants.all().delete()
    for reservation in reservations_of(group):  # those of retired agents could not be cancelled later
        cancel(actor, group, reservation)
    audit_log.record(actor=actor, action="agents.delete_resource_group", target=group)


@transaction.atomic
def grant_resource_group(*, actor: Actor, group_id: int, grantee: Grantee) -> GroupGrant:
    """Allow a domain, project or user to use the group; a repeat changes nothing.
    Raises NotFound, PermissionDenied.
    """
    group = hold_to_change(actor, group_id)
    whom: dict[str, Any] = {level_of(grantee): grantee}
    grant, is_new = GroupGrant.objects.get_or_create(group=group, **whom)
    if is_new:
        audit_log.record(
            actor=actor, action="agents.grant_resource_group", target=group, changes=_told(grantee)
        )
    return grant


@transaction.atomic
def revoke_resource_group(*, actor: Actor, group_id: int, grant_id: int) -> None:
    """Revoke a grant. Pending sessions that relied on it get a queue hold; running ones continue.
    Raises NotFound, PermissionDenied.
    """
    group = hold_to_change(actor, group_id)
    grant = grants_of(group).filter(pk=grant_id).first()
    if grant is None:
        raise NotFound(_("“{name}” has no such grant.").format(name=group.name))

    audit_log.record(
        actor=actor, action="agents.revoke_resource_group", target=group, changes=_told(grant.grantee)
    )
    grant.delete()
    plan_discarder.get()([group.pk])  # plans made with the grant must not be committed
    excluded_sessions.get().hold_excluded_sessions(group.pk)


@transaction.atomic
def move_agent(*, actor: Actor, agent_id: int, group_id: int) -> Agent:
    """Move an agent to another group; its sessions continue. Raises NotFound, PermissionDenied,
    Conflict (it is reserved or was moved concurrently).
    """
    group = access_group(actor, group_id)
    require_superadmin(actor)
    return put_into_group(actor, access_agent(actor, agent_id), group)


def put_into_group(actor: Actor, agent: Agent, group: ResourceGroup) -> Agent:
    """Move the agent to `group` and return it, within the caller's transaction. Until that ends the
    agent cannot be moved or reserved, and the group cannot be deleted. Raises NotFound, Conflict.
    """
    before = agent.resource_group_id
    found = ResourceGroup.objects.select_for_update(no_key=True).filter(pk__in={before, group.pk})
    # groups before the agent, as commits of plans lock
    held = {each.pk: each for each in found.order_by("pk")}
    if group.pk not in held or held[group.pk].deleted_at is not None:
        raise NotFound(_("The resource group “{name}” was deleted.").format(name=group.name))
    if before != group.pk:
        plan_discarder.get()(held)
    moved: Agent = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    if moved.resource_group_id != before:
        sentence = _("“{agent}” was put into another resource group at the same moment.")
        raise Conflict(sentence.format(agent=agent.name), hint=_("Look where it is now, and try again."))
    moved.resource_group = held[group.pk]
    if before == group.pk:
        return moved
    _demand_not_reserved(moved)

    moved.save(update_fields=["resource_group"])
    promise([moved.pk])
    changes = {"resource_group": [held[before].name, group.name]}
    audit_log.record(actor=actor, action="agents.move_agent", target=moved, changes=changes)
    for changed_id in (before, group.pk):
        publish(CapacityChanged(changed_id))
    return moved


def _told(grantee: Grantee) -> dict[str, str]:
    """Return the grantee for the audit log."""
    return {level_of(grantee): name_of(grantee)}


def _hold_as_default(actor: Actor, group_id: int) -> ResourceGroup:
    """Lock the group like `hold_to_change`, after taking the default from the present default
    group.
    """
    access_group(actor, group_id)
    require_superadmin(actor)
    _take_default(actor, group_id)
    return access_group(actor, group_id)


def _take_default(actor: Actor, group_id: int | None) -> None:
    """Unset the present default group, for this or a new group. The gate admits one change at a time."""
    precede_admissions()
    found = ResourceGroup.objects.select_for_update().filter(Q(is_default=True) | Q(pk=group_id))
    held = {each.pk: each for each in found.order_by("pk")}  # in id order, as `put_into_group` locks
    for other in (each for each in held.values() if each.pk != group_id):
        other.is_default = False
        other.save(update_fields=["is_default"])
        changes = {"is_default": [True, False]}
        audit_log.record(actor=actor, action="agents.update_resource_group", target=other, changes=changes)


def _demand_not_reserved(agent: Agent) -> None:
    reservation = reserved_at_all(agent.pk)
    if reservation is not None:
        raise Conflict(
            _("“{agent}” is reserved for “{name}” in its group.").format(
                agent=agent.name, name=reservation.name
            ),
            hint=_("Cancel that reservation first."),
        )


def _demand_no_machines(group: ResourceGroup) -> None:
    names = list(group.agents.in_use().order_by("name").values_list("name", flat=True)[: SHOWN + 1])
    if names:
        machines = _(", ").join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
        raise Conflict(
            _("“{name}” has machines: {machines}.").format(name=group.name, machines=machines),
            hint=_("Put them into another resource group, or retire them, first."),
        )


def _demand_no_sessions(group: ResourceGroup) -> None:
    counts = session_counts.get()([group.pk]).get(group.pk, {})
    waiting, running = counts.get("waiting", 0), counts.get("running", 0)
    if waiting:
        sentence = ngettext(
            "{count} session waits in “{name}”.", "{count} sessions wait in “{name}”.", waiting
        )
        raise Conflict(
            sentence.format(count=waiting, name=group.name),
            hint=_("Pause the group, so that nothing starts, and cancel what waits, or let it start, first."),
        )
    if running:
        sentence = ngettext("{count} session runs in “{name}”.", "{count} sessions run in “{name}”.", running)
        raise Conflict(
            sentence.format(count=running, name=group.name), hint=_("Stop it, or wait until it ends, first.")
        )


def _check(group: ResourceGroup) -> None:
    """Validate the group. Raises InvalidInput with a message for each wrong field."""
    try:
        group.full_clean()
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields=error.message_dict) from error


def _check_ends(group: ResourceGroup) -> None:
    """Raise InvalidInput if its end-of-session rules contradict each other. Contradictions stored
    earlier stay allowed while these columns do not change.
    """
    found = contradictions(group)
    if found:
        raise InvalidInput(
            next(iter(found.values())), fields={column: [told] for column, told in found.items()}
        )


def _save(group: ResourceGroup, *, update_fields: Sequence[str] | None = None) -> None:
    """Save the group. Raises InvalidInput if another group took the name concurrently, Conflict if
    another became the default.
    """
    try:
        with transaction.atomic():
            group.save(update_fields=update_fields)
    except IntegrityError as error:
        constraint = constraint_of(error)
        if constraint == "one_default_resource_group":
            raise _default_is_taken() from error
        if constraint != "resource_group_name_once":
            raise
        sentence = _("Another resource group got this name at the same moment. Choose another name.")
        raise InvalidInput(sentence, fields={"name": [sentence]}) from error


def _default_is_taken() -> Conflict:
    return Conflict(
        _("Another resource group became the default at the same moment."),
        hint=_("Look which one it is now, and try again."),
    )


def _values(group: ResourceGroup) -> dict[str, Any]:
    values = {column: getattr(group, column) for column in EDITABLE}
    return {**values, **{column: float(values[column]) for column in FACTORS}}
