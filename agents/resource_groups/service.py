"""Writes of resource groups, their access grants and their agents; superadmins only."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.admission_gate import precede_admissions
from accounts.core.utilization import MIN_UTILIZATION_COLUMNS, has_min_utilization, ineffective_grace
from accounts.selectors import require_superadmin
from agents.capacity.overcommit import apply_overcommit
from agents.core.sandboxes import RUNTIMES, SANDBOX_NAMES, Sandbox
from agents.events import CapacityChanged
from agents.grantee import Grantee, grantee_level, grantee_name
from agents.locks import lock_group_to_change
from agents.models import Agent, GroupGrant, ResourceGroup
from agents.ports import excluded_sessions, plan_discarder, session_counts
from agents.reservations.selectors import current_reservation, current_reservations
from agents.reservations.service import delete_reservation
from agents.selectors import access_agent, access_group, group_grants
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.db.connection import constraint_of
from common.db.validation import validate_model
from common.errors import Conflict, InvalidInput, NotFound
from common.messaging.events import publish
from common.values.durations import format_duration
from common.values.text import quoted

OVERCOMMIT_FACTORS = ("cpu_overcommit", "mem_overcommit")

DEVICE_RULES = ("allows_rdma", "allows_gpudirect_storage")

END_RULES = (
    "max_lifetime_s", "max_idle_s", *MIN_UTILIZATION_COLUMNS, "use_rule", "use_window_s", "use_grace_s", "ends_idle_batch",
    "max_extensions", "extension_s",
)  # fmt: skip

EDITABLE = (
    "name", "description", "is_default", "is_active", "is_public", "strategy", "scheduler", "ageing_s", "patience_s",
    "usage_half_life_s", "preemptible_priority", "preemption_after_s", "preemption_grace_s",
    "session_types", "max_session_slots", "limits", "sandbox", *OVERCOMMIT_FACTORS, *DEVICE_RULES,
    *END_RULES,
)  # fmt: skip

ADMISSION_RULES = ("is_public", "session_types")

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
    validate_model(group)
    _check_end_rules(group)

    _save(group)
    audit_log.record(actor=actor, action="agents.create_resource_group", target=group, changes=_values(group))
    return group


@transaction.atomic
def update_resource_group(*, actor: Actor, group_id: int, changes: Mapping[str, Any]) -> ResourceGroup:
    """Change these columns of EDITABLE; a new default group replaces the present one. Pending
    sessions are reconsidered at once, and get a queue hold if they are not accepted any more.
    Raises NotFound, PermissionDenied, InvalidInput, Conflict.
    """
    lock = _lock_with_default if changes.get("is_default") else lock_group_to_change
    group = lock(actor, group_id)
    before = _values(group)
    if group.is_default and changes.get("is_default") is False:
        raise Conflict(
            _("“{name}” is the default resource group.").format(name=group.name),
            hint=_("Make another one the default instead."),
        )
    for column, value in changes.items():
        setattr(group, column, value)
    validate_model(group)
    changed = audit_log.changed(before, _values(group))
    if not changed.keys().isdisjoint(END_RULES):
        _check_end_rules(group)
    if "sandbox" in changed:
        _check_sandbox(group)

    if changed:
        plan_discarder.get()([group.pk])  # plans made under the old policy must not be committed
        _save(group, update_fields=list(changed))
        audit_log.record(actor=actor, action="agents.update_resource_group", target=group, changes=changed)
        if not changed.keys().isdisjoint(ADMISSION_RULES):
            excluded_sessions.get().hold_excluded_sessions(group.pk)
        if not changed.keys().isdisjoint(OVERCOMMIT_FACTORS):
            apply_overcommit(group.agents.values_list("pk", flat=True))
        publish(CapacityChanged(group.pk))
    return group


@transaction.atomic
def delete_resource_group(*, actor: Actor, group_id: int) -> None:
    """Delete the group and its reservations; ended sessions keep its name. Raises NotFound,
    PermissionDenied, Conflict (agents, pending or running sessions, or the default group while
    there are others).
    """
    group = lock_group_to_change(actor, group_id)
    if group.is_default and ResourceGroup.objects.present().exclude(pk=group.pk).exists():
        raise Conflict(
            _("“{name}” is the default resource group.").format(name=group.name),
            hint=_("Make another one the default first."),
        )
    _check_no_agents(group)
    _check_no_sessions(group)

    group.deleted_at, group.is_default, group.is_active = clock.now(), False, False
    group.save(update_fields=["deleted_at", "is_default", "is_active"])
    group.grants.all().delete()
    for reservation in current_reservations(group):  # those of retired agents could not be cancelled later
        delete_reservation(actor, group, reservation)
    audit_log.record(actor=actor, action="agents.delete_resource_group", target=group)


@transaction.atomic
def grant_resource_group(*, actor: Actor, group_id: int, grantee: Grantee) -> GroupGrant:
    """Allow a domain, project or user to use the group; a repeat changes nothing.
    Raises NotFound, PermissionDenied.
    """
    group = lock_group_to_change(actor, group_id)
    whom: dict[str, Any] = {grantee_level(grantee): grantee}
    grant, is_new = GroupGrant.objects.get_or_create(group=group, **whom)
    if is_new:
        audit_log.record(
            actor=actor, action="agents.grant_resource_group", target=group, changes=_audit_values(grantee)
        )
    return grant


@transaction.atomic
def revoke_resource_group(*, actor: Actor, group_id: int, grant_id: int) -> None:
    """Revoke a grant. Pending sessions that relied on it get a queue hold; running ones continue.
    Raises NotFound, PermissionDenied.
    """
    group = lock_group_to_change(actor, group_id)
    grant = group_grants(group).filter(pk=grant_id).first()
    if grant is None:
        raise NotFound(_("“{name}” has no such grant.").format(name=group.name))

    audit_log.record(
        actor=actor, action="agents.revoke_resource_group", target=group, changes=_audit_values(grant.grantee)
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


@transaction.atomic
def save_limit(
    *, actor: Actor, group_id: int, limit: Mapping[str, Any], instead_of: str = ""
) -> ResourceGroup:
    """Add a limit to the group, or replace the limit named `instead_of`. Keys as in
    `agents.core.group_limits`. Raises NotFound, PermissionDenied, InvalidInput.
    """
    group = lock_group_to_change(actor, group_id)
    limits = list(group.limits)
    index = _limit_index(group, instead_of) if instead_of else len(limits)
    limits[index : index + 1] = [dict(limit)]
    name = str(limit.get("name", "")).strip()
    if any(other["name"] == name for number, other in enumerate(limits) if number != index):
        raise InvalidInput.at("name", _("Another limit of this group has this name."))

    return update_resource_group(actor=actor, group_id=group_id, changes={"limits": limits})


@transaction.atomic
def remove_limit(*, actor: Actor, group_id: int, name: str) -> ResourceGroup:
    """Remove a limit from the group. Raises NotFound, PermissionDenied."""
    group = lock_group_to_change(actor, group_id)
    limits = list(group.limits)
    del limits[_limit_index(group, name)]

    return update_resource_group(actor=actor, group_id=group_id, changes={"limits": limits})


def access_limit(group: ResourceGroup, name: str) -> dict[str, Any]:
    """Return the stored limit of this name. Raises NotFound."""
    limit: dict[str, Any] = group.limits[_limit_index(group, name)]
    return limit


def _limit_index(group: ResourceGroup, name: str) -> int:
    """Return the index of the limit. Raises NotFound."""
    for index, limit in enumerate(group.limits):
        if limit["name"] == name:
            return index
    raise NotFound(_("“{group}” has no limit {name}.").format(group=group.name, name=quoted(name)))


def put_into_group(actor: Actor, agent: Agent, group: ResourceGroup) -> Agent:
    """Move the agent to `group` and return it, within the caller's transaction. Until that ends the
    agent cannot be moved or reserved, and the group cannot be deleted. Raises NotFound, Conflict.
    """
    before = agent.resource_group_id
    found = ResourceGroup.objects.select_for_update(no_key=True).filter(pk__in={before, group.pk})
    # groups before the agent, as commits of plans lock
    locked = {each.pk: each for each in found.order_by("pk")}
    if group.pk not in locked or locked[group.pk].deleted_at is not None:
        raise NotFound(_("The resource group “{name}” was deleted.").format(name=group.name))
    if before != group.pk:
        plan_discarder.get()(locked)
    moved: Agent = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    if moved.resource_group_id != before:
        sentence = _("“{agent}” was put into another resource group at the same moment.")
        raise Conflict(sentence.format(agent=agent.name), hint=_("Look where it is now, and try again."))
    moved.resource_group = locked[group.pk]
    if before == group.pk:
        return moved
    _check_not_reserved(moved)

    moved.save(update_fields=["resource_group"])
    apply_overcommit([moved.pk])
    changes = {"resource_group": [locked[before].name, group.name]}
    audit_log.record(actor=actor, action="agents.move_agent", target=moved, changes=changes)
    for changed_id in (before, group.pk):
        publish(CapacityChanged(changed_id))
    return moved


def _audit_values(grantee: Grantee) -> dict[str, str]:
    """Return the grantee for the audit log."""
    return {grantee_level(grantee): grantee_name(grantee)}


def _lock_with_default(actor: Actor, group_id: int) -> ResourceGroup:
    """Lock the group like `lock_group_to_change`, after taking the default from the present default
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
    locked = {each.pk: each for each in found.order_by("pk")}  # in id order, as `put_into_group` locks
    for other in (each for each in locked.values() if each.pk != group_id):
        other.is_default = False
        other.save(update_fields=["is_default"])
        changes = {"is_default": [True, False]}
        audit_log.record(actor=actor, action="agents.update_resource_group", target=other, changes=changes)


def _check_not_reserved(agent: Agent) -> None:
    reservation = current_reservation(agent.pk)
    if reservation is not None:
        raise Conflict(
            _("“{agent}” is reserved for “{name}” in its group.").format(
                agent=agent.name, name=reservation.name
            ),
            hint=_("Cancel that reservation first."),
        )


def _check_no_agents(group: ResourceGroup) -> None:
    names = list(group.agents.in_use().order_by("name").values_list("name", flat=True)[: SHOWN + 1])
    if names:
        machines = _(", ").join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
        raise Conflict(
            _("“{name}” has machines: {machines}.").format(name=group.name, machines=machines),
            hint=_("Put them into another resource group, or retire them, first."),
        )


def _check_no_sessions(group: ResourceGroup) -> None:
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


def _check_end_rules(group: ResourceGroup) -> None:
    """Raise InvalidInput if a rule for the end of sessions makes another one ineffective for every
    session that is not extended. Contradictions stored earlier stay allowed while these columns do
    not change.
    """
    found = {}
    lifetime_s = group.max_lifetime_s
    if lifetime_s is not None and group.max_idle_s is not None and group.max_idle_s >= lifetime_s:
        found["max_idle_s"] = _(
            "After {lifetime} every session has ended, so none is idle for {idle}. Make the idle timeout shorter than the"
            " lifetime, or leave it empty."
        ).format(lifetime=format_duration(lifetime_s), idle=format_duration(group.max_idle_s))
    needed_s = group.use_window_s + group.use_grace_s
    if has_min_utilization(group) and (too_late := ineffective_grace(lifetime_s, needed_s)):
        found["use_grace_s"] = too_late
    if group.max_extensions and not group.extension_s:
        found["extension_s"] = _(
            "An extension of no time extends nothing. Give its length, or allow no extensions."
        )
    if found:
        raise InvalidInput(next(iter(found.values())), fields={name: [text] for name, text in found.items()})


def _check_sandbox(group: ResourceGroup) -> None:
    """Raise InvalidInput if the group has machines and none of them has its sandbox."""
    machines = list(group.agents.in_use())
    if not machines or any(group.sandbox in (Sandbox.RUNC, *agent.sandboxes) for agent in machines):
        return
    sentence = _("No machine of “{group}” has {sandbox}. Register its runtime ({runtime}) with an engine of the group first, and check the machine on its page.")  # fmt: skip
    words = {"sandbox": SANDBOX_NAMES[group.sandbox], "runtime": RUNTIMES[Sandbox(group.sandbox)][0]}
    raise InvalidInput.at("sandbox", sentence.format(group=group.name, **words))


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
            raise Conflict(
                _("Another resource group became the default at the same moment."),
                hint=_("Look which one it is now, and try again."),
            ) from error
        if constraint != "resource_group_name_once":
            raise
        raise InvalidInput.at(
            "name", _("Another resource group got this name at the same moment. Choose another name.")
        ) from error


def _values(group: ResourceGroup) -> dict[str, Any]:
    values = {column: getattr(group, column) for column in EDITABLE}
    return {**values, **{column: float(values[column]) for column in OVERCOMMIT_FACTORS}}
