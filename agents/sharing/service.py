"""Writes of the rules by which devices are shared; superadmins only."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agents.events import CapacityChanged
from agents.locks import lock_group_to_change
from agents.models import ResourceGroup, SharingMode, SharingRule
from agents.ports import plan_discarder
from agents.sharing.selectors import access_sharing_rule, modes_for
from common.actors import Actor
from common.audit import audit_log
from common.db.validation import validate_model
from common.errors import InvalidInput
from common.i18n import paragraph
from common.messaging.events import publish

EDITABLE = ("model", "mode", "smallest_share", "hook_image", "mig_on_demand")


@transaction.atomic
def create_sharing_rule(*, actor: Actor, group_id: int, **columns: Any) -> SharingRule:
    """Add a rule; `columns` are of EDITABLE. Raises NotFound, PermissionDenied, InvalidInput (also if
    the group has a rule for this model, or its devices cannot be shared in this mode).
    """
    group = lock_group_to_change(actor, group_id)
    rule = SharingRule(group=group, **columns)
    validate_model(rule)
    _check_mode(rule)

    rule.save()
    audit_log.record(actor=actor, action="agents.create_sharing_rule", target=group, changes=_values(rule))
    _replan(group)
    return rule


@transaction.atomic
def change_sharing_rule(
    *, actor: Actor, group_id: int, rule_id: int, changes: Mapping[str, Any]
) -> SharingRule:
    """Change these columns of EDITABLE. Sessions that run keep what they got. Raises NotFound,
    PermissionDenied, InvalidInput.
    """
    group = lock_group_to_change(actor, group_id)
    rule = access_sharing_rule(group, rule_id)
    before = _values(rule)
    for column, value in changes.items():
        setattr(rule, column, value)
    validate_model(rule)
    _check_mode(rule)
    changed = audit_log.changed(before, _values(rule))

    if changed:
        rule.save(update_fields=list(changed))
        audit_log.record(actor=actor, action="agents.change_sharing_rule", target=group, changes=changed)
        _replan(group)
    return rule


@transaction.atomic
def delete_sharing_rule(*, actor: Actor, group_id: int, rule_id: int) -> None:
    """Delete the rule; sessions that run keep what they got. Raises NotFound, PermissionDenied."""
    group = lock_group_to_change(actor, group_id)
    rule = access_sharing_rule(group, rule_id)

    audit_log.record(actor=actor, action="agents.delete_sharing_rule", target=group, changes=_values(rule))
    rule.delete()
    _replan(group)


def _check_mode(rule: SharingRule) -> None:
    """Raise InvalidInput if no device of the rule can be shared in its mode."""
    modes = modes_for(rule.model, group=rule.group)
    if rule.mode in modes:
        return
    kind = rule.model or _("Accelerators of “{group}”").format(group=rule.group.name)
    labels = [label for value, label in SharingMode.choices if value in modes]
    hint = _("Choose one of these: {names}.").format(names=", ".join(map(str, labels)))
    sentence = _("{devices} cannot be shared in this way.").format(devices=kind)
    raise InvalidInput(sentence, hint=hint, fields={"mode": [paragraph([sentence, hint])]})


def _values(rule: SharingRule) -> dict[str, Any]:
    return {column: getattr(rule, column) for column in EDITABLE}


def _replan(group: ResourceGroup) -> None:
    """Discard plans made before, and have pending sessions reconsidered at once."""
    plan_discarder.get()([group.pk])
    publish(CapacityChanged(group.pk))
