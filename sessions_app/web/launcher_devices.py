"""Accelerators in the launcher: a card for each model of the user's groups, and what is asked of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from agents.capacity.device_inventory import DeviceModel, device_models
from agents.core.isolation import OFFERED, SharingMode, usable_mode
from agents.models import ResourceGroup, SharingRule
from agents.selectors import SlotCapacity
from agents.vendors.sharing import sharing_modes
from common.values.resources import CPU, MEM, MILLI, slot_title
from sessions_app.web.launcher_fields import PART

NO_REQUIREMENTS = {
    "device_model": "",
    "device_mem": "",
    "device_api": "",
    "linked_devices": False,
    "isolation": "",
}
MEM_PART, CORES_PART = ".mem", ".cores"


@dataclass(frozen=True, slots=True)
class DeviceCard:
    """Accelerators of one group that a session may choose: of one model, of any model of a slot, or
    slices of one size.

    `key` is the slot, and for a model ":" and its name. `free` and `total` count devices, `most` those
    of the largest machine. `is_mixed`: `mem_bytes` is that of the smallest. `part_words` says how a
    part is separated from others; "" if no part is given.
    """

    key: str
    group: str
    title: str
    mem_bytes: int
    free: int
    total: int
    most: int
    part_words: str
    is_mixed: bool = False

    @property
    def part_mem(self) -> str:
        """Return what a part gets unless something else is typed: half of the memory, like "40g"."""
        mebibytes = self.mem_bytes // 2 >> 20
        return "" if not mebibytes else f"{mebibytes >> 10}g" if mebibytes % 1024 == 0 else f"{mebibytes}m"


def device_cards(
    groups: Sequence[ResourceGroup], rooms: Mapping[int, Mapping[str, SlotCapacity]]
) -> list[DeviceCard]:
    """Return the cards of these groups, in their order. Two queries, none without accelerators."""
    slots = {group.pk: sorted({*rooms.get(group.pk, ())} - {CPU, MEM}) for group in groups}
    if not any(slots.values()):
        return []
    known: dict[tuple[int, str], list[DeviceModel]] = {}
    for model in device_models([pk for pk in slots if slots[pk]]):
        known.setdefault((model.group_id, model.slot_name), []).append(model)
    rules = {(rule.group_id, rule.model): rule for rule in SharingRule.objects.filter(group__in=slots)}
    return [
        card
        for group in groups
        for slot in slots[group.pk]
        for card in _cards_of_slot(group, slot, rooms[group.pk][slot], known.get((group.pk, slot), []), rules)
    ]


def _cards_of_slot(
    group: ResourceGroup,
    slot: str,
    room: SlotCapacity,
    models: Sequence[DeviceModel],
    rules: Mapping[tuple[int, str], SharingRule],
) -> Iterable[DeviceCard]:
    named = [model for model in models if model.is_named and not model.profile]
    if len(models) != 1 or not named:
        rule_words = [_part_words(group, model, rules) for model in models]
        yield DeviceCard(
            key=slot,
            group=group.name,
            title=_title_of_any(slot, models),
            mem_bytes=min((model.mem_bytes for model in models), default=0),
            free=sum(model.free for model in models) if models else (room.capacity - room.occupied) // MILLI,
            total=sum(model.total for model in models) if models else room.capacity // MILLI,
            most=max((model.most for model in models), default=max(1, room.largest // MILLI)),
            part_words="" if any(not words for words in rule_words) else next(iter(rule_words), _any_part()),
            is_mixed=len({model.mem_bytes for model in models}) > 1,
        )
    for model in named:
        yield DeviceCard(
            key=f"{slot}:{model.model}",
            group=group.name,
            title=model.model,
            mem_bytes=model.mem_bytes,
            free=model.free,
            total=model.total,
            most=model.most,
            part_words=_part_words(group, model, rules),
        )


def _title_of_any(slot: str, models: Sequence[DeviceModel]) -> str:
    if len(models) == 1:
        [model] = models
        return f"{model.model} {model.profile}".strip() or slot_title(slot)
    return _("Any {slot}").format(slot=slot_title(slot)) if models else slot_title(slot)


def _part_words(
    group: ResourceGroup, model: DeviceModel, rules: Mapping[tuple[int, str], SharingRule]
) -> str:
    """Return how a part of a device is separated from others; "" if its vendor or the rule has none."""
    if model.profile:
        return ""
    rule = rules.get((group.pk, model.model)) or rules.get((group.pk, "")) or SharingRule()
    mode = usable_mode(SharingMode(rule.mode), sharing_modes(model.vendor))
    return "" if mode is SharingMode.FORBIDDEN else OFFERED[mode].sentence


def _any_part() -> str:
    return SharingRule().isolation.sentence


def requested_devices(typed: Mapping[str, Any]) -> dict[str, str]:
    """Return the amounts to request of the chosen card as {name: text}; empty without one."""
    if not typed["device"]:
        return {}
    slot = typed["device"].partition(":")[0]
    if typed["device_as"] == PART:
        parts = {slot + MEM_PART: typed["part_mem"].strip(), slot + CORES_PART: typed["part_cores"].strip()}
        return {name: text for name, text in parts.items() if text} or {slot + MEM_PART: ""}
    return {slot: typed["device_count"].strip() or "1"}


def device_requirements(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the request demands of its devices, by field of the REST body: nothing that does
    not go with the choice.
    """
    if not typed["device"]:
        return {**NO_REQUIREMENTS}
    is_part = typed["device_as"] == PART
    demands = {name: typed[name] for name in NO_REQUIREMENTS}
    return {
        **demands,
        "device_model": typed["device"].partition(":")[2],
        "linked_devices": not is_part and demands["linked_devices"],
        "isolation": demands["isolation"] if is_part else "",
    }


def initial_device(amounts: Mapping[str, str], model: str) -> dict[str, str]:
    """Return the form's initial values for requested amounts of accelerators, {name: text}."""
    found: dict[str, str] = {}
    for name, text in amounts.items():
        slot, dot, end = name.rpartition(".")
        if dot and f".{end}" in (MEM_PART, CORES_PART):
            found |= {"device_as": PART, f"part_{end}": text}
        else:
            slot = name
            found["device_count"] = text
        found["device"] = f"{slot}:{model}" if model else slot
    return found
