"""Reads of the rules by which devices are shared."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from agents.core.isolation import SharingMode
from agents.models import AgentDevice, ResourceGroup, SharingRule
from agents.vendors.sharing import EVERY_MODE, sharing_modes
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


def modes_for(model: str = "", *, group: ResourceGroup | None = None) -> set[SharingMode]:
    """Return the modes that a rule may have for these devices: those of their vendors, and “forbidden”;
    all if there is no such device yet. `model` "" and no group: devices of any. One query.
    """
    devices = AgentDevice.objects.filter(is_present=True, parent_id="")
    if model:
        devices = devices.filter(model=model)
    if group:
        devices = devices.filter(agent__resource_group=group)
    vendors = devices.order_by().values_list("vendor", flat=True).distinct()
    found = [sharing_modes(vendor) for vendor in vendors]
    return {SharingMode.FORBIDDEN}.union(*(found or [EVERY_MODE]))


class IsolationRanks(NamedTuple):
    """Rules by model, and for other models, by which parts of the devices of a group are isolated."""

    by_model: Mapping[str, SharingRule]
    usual: SharingRule

    def least(self, model: str, api_version: int) -> int:
        """Return the rank of the isolation of parts on a machine with devices of this model ("": of
        several) whose driver can run this version of CUDA (0: unknown).
        """
        rules = [self.by_model.get(model, self.usual)] if model else [self.usual, *self.by_model.values()]
        return min(rule.isolation_on(api_version).rank for rule in rules)


def isolation_ranks(group: ResourceGroup) -> IsolationRanks:
    """Return the ranks by the rules of the group. One query."""
    rules = {rule.model: rule for rule in sharing_rules(group)}
    return IsolationRanks(rules, rules.pop("", SharingRule()))


def makes_partitions(group: ResourceGroup) -> bool:
    """True if a rule of the group allows partitions on demand. One query."""
    return sharing_rules(group).filter(mig_on_demand=True).exists()


def sharing_rules_for(group: ResourceGroup, models: Collection[str]) -> dict[str, SharingRule]:
    """Return {model: rule} as `sharing_rule_for` does. One query."""
    rules = {rule.model: rule for rule in sharing_rules(group)}
    usual = rules.get("") or SharingRule(group=group, model="")
    return {model: rules.get(model, usual) for model in models}
