"""Reads of the rules by which devices are shared."""

from collections.abc import Collection

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from agents.models import ResourceGroup, SharingRule
from common.errors import NotFound


def sharing_rules(group: ResourceGroup) -> QuerySet[SharingRule]:
    """Return the rules of the group, that of all models first."""
    return SharingRule.objects.filter(group=group).order_by("model")


def access_sharing_rule(group: ResourceGroup, rule_id: int) -> SharingRule:
    """Return the rule of the group. Raises NotFound."""
    rule = sharing_rules(group).filter(pk=rule_id).first()
    if rule is None:
        raise NotFound(_("“{name}” has no such sharing rule.").format(name=group.name))
    return rule


def sharing_rule_for(group: ResourceGroup, model: str = "") -> SharingRule:
    """Return the rule for devices of this model: its own, else that of all models, else an unsaved
    one that says time slicing. One query.
    """
    rules = sharing_rules(group).filter(Q(model=model) | Q(model=""))
    return rules.order_by("-model").first() or SharingRule(group=group, model="")


def sharing_rules_for(group: ResourceGroup, models: Collection[str]) -> dict[str, SharingRule]:
    """Return {model: rule} as `sharing_rule_for` does. One query."""
    rules = {rule.model: rule for rule in sharing_rules(group)}
    usual = rules.get("") or SharingRule(group=group, model="")
    return {model: rules.get(model, usual) for model in models}
