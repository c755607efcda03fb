"""Health rules of accelerators: what a vendor's description says, and what administrators changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, get_args

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.accelerators.description import (
    CAUSES,
    Action,
    HealthRule,
    VendorDescription,
    shipped_vendors,
    vendor_named,
)
from agents.accelerators.health import LOST_RULE, OTHER_XIDS, rule_actions, xid_number
from agents.models import HealthOverride
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput, NotFound
from common.values.text import quoted

ACTIONS = get_args(Action)


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One rule of a vendor. `condition` is what it looks at, in terms of the vendor; `default` the action of
    the description, `action` that which applies.
    """

    vendor: str
    rule: str
    title: str
    condition: str
    default: Action
    action: Action

    @property
    def is_changed(self) -> bool:
        return self.action != self.default


def changed_actions() -> dict[str, dict[str, Action]]:
    """Return {vendor: {name of a rule: its action}} of the changed rules. One query."""
    found: dict[str, dict[str, Action]] = {}
    for vendor, rule, action in HealthOverride.objects.values_list("vendor", "rule", "action"):
        found.setdefault(vendor, {})[rule] = cast("Action", action)  # by a constraint
    return found


def rule_entries(actor: Actor) -> dict[str, list[RuleEntry]]:
    """Return the rules of each vendor that Berth ships, by title, for superadmins. Raises
    PermissionDenied. One query.
    """
    require_superadmin(actor)
    changed = changed_actions()
    vendors = sorted(shipped_vendors(), key=lambda vendor: vendor.title.casefold())
    return {vendor.name: _entries(vendor, changed.get(vendor.name, {})) for vendor in vendors}


@transaction.atomic
def change_health_rule(*, actor: Actor, vendor: str, rule: str, action: str | None) -> RuleEntry:
    """Let a rule of a vendor do this; None: what the description says. Devices are judged by it at their
    next look, and a quarantine stays until somebody lifts it. Raises PermissionDenied, NotFound (no such
    vendor or rule), InvalidInput (no such action).
    """
    require_superadmin(actor)
    description = vendor_named(vendor)
    default = None if description is None else _default_action(description, rule)
    if description is None or default is None:
        message = _("There is no health rule {rule} of {vendor}.")
        raise NotFound(message.format(rule=quoted(rule), vendor=quoted(vendor)))
    if action is not None and action not in ACTIONS:
        raise InvalidInput.at("action", _("Choose ignore, warn or quarantine."))

    wanted = action or default
    row = HealthOverride.objects.select_for_update().filter(vendor=vendor, rule=rule).first()
    before = row.action if row else default
    if before != wanted:
        values = {"action": wanted, "changed_by_id": actor.user_id, "changed_at": clock.now()}
        row, _created = HealthOverride.objects.update_or_create(vendor=vendor, rule=rule, defaults=values)
        told = {"rule": rule, "from": before, "to": wanted}
        audit_log.record(actor=actor, action="agents.change_health_rule", target=row, changes=told)
    if row is not None and wanted == default:
        row.delete()
    return _entry(description, rule, default, {rule: cast("Action", wanted)})


def _default_action(vendor: VendorDescription, rule: str) -> Action | None:
    """Return the action of the description; None if there is no such rule. Any event may be named."""
    actions = rule_actions(vendor.health)
    is_event = xid_number(rule) is not None
    return actions.get(rule, actions.get(OTHER_XIDS) if is_event else None)


def _entries(vendor: VendorDescription, changed: Mapping[str, Action]) -> list[RuleEntry]:
    defaults = rule_actions(vendor.health)
    added = {
        rule: defaults[OTHER_XIDS] for rule in changed if rule not in defaults and OTHER_XIDS in defaults
    }
    rules = {**defaults, **{rule: action for rule, action in added.items() if xid_number(rule) is not None}}
    order = {rule: place for place, rule in enumerate(defaults)}

    def place(rule: str) -> tuple[int, int]:
        number = xid_number(rule)
        return (len(vendor.health.rules), number) if number is not None else (order[rule], 0)

    names = sorted(rules, key=lambda rule: (rule == LOST_RULE, rule == OTHER_XIDS, *place(rule)))
    return [_entry(vendor, rule, rules[rule], changed) for rule in names]


def _entry(vendor: VendorDescription, rule: str, default: Action, changed: Mapping[str, Action]) -> RuleEntry:
    title, condition = _words(vendor, rule)
    return RuleEntry(vendor.name, rule, title, condition, default, changed.get(rule, default))


def _words(vendor: VendorDescription, rule: str) -> tuple[str, str]:
    if rule == LOST_RULE:
        return _("It disappeared while a session held it."), ""
    if rule == OTHER_XIDS:
        return _("The driver reports any other error (Xid)."), ""
    if (number := xid_number(rule)) is not None:
        return _("The driver reports error (Xid) {number}.").format(number=number), ""
    found = next(each for each in vendor.health.rules if each.field == rule)
    return _(CAUSES[found.because]), _condition(found)


def _condition(rule: HealthRule) -> str:
    if rule.one_of:
        return f"{rule.field} = {', '.join(map(str, rule.one_of))}"
    if rule.none_of:
        return f"{rule.field} ≠ {', '.join(map(str, rule.none_of))}"
    if rule.above is not None:
        return f"{rule.field} > {rule.above:g}"
    return f"{rule.field} ↑" if rule.grows else f"{rule.field} …"
