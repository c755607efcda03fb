"""The sentences of sessions whose containers are to lie in a certain way, or that are placed beside others."""

from collections.abc import Iterable

from common.i18n import gettext_noop
from common.values.resources import ResourceSlots
from common.values.stored_message import Argument
from scheduler.engine import Explanation, Gang, ReasonCode

Said = tuple[str, dict[str, Argument]]
FOR_ROOM = (ReasonCode.NEVER_FITS, ReasonCode.NO_CAPACITY, ReasonCode.FRAGMENTED)


def of_gang(why: Explanation) -> Said | None:
    """None where it does not matter how its containers lie."""
    if why.kernel_count == 1 or why.reason not in FOR_ROOM:
        return None
    if why.gang is Gang.ONE_MACHINE:
        return _on_one_machine(why)
    return _spread(why) if why.gang is Gang.SPREAD else None


def _on_one_machine(why: Explanation) -> Said:
    short = short_of(why.asked, why.best_agent)
    room: dict[str, Argument] = {
        "short": short or why.asked.to_json(),
        "room": same_slots(why.best_agent, short or why.asked),
        "count": why.kernel_count,
    }
    if why.reason is ReasonCode.NEVER_FITS:
        text = gettext_noop(
            "Asks for {short} on one agent for its {count} containers together, but the largest of resource group"
            " “{group}” has only {room}. It can never start: cancel it and ask for less."
        )
        return text, room
    text = gettext_noop(
        "Waits for {short} on one agent: no agent of resource group “{group}” has room for all {count} containers"
        " together. The one with the most room has {room} free."
    )
    return text, room


def _spread(why: Explanation) -> Said | None:
    numbers: dict[str, Argument] = {
        "count": why.kernel_count,
        "each": why.asked_by_kernel.to_json(),
        "found": why.agents_with_room,
    }
    if why.reason is not ReasonCode.NEVER_FITS:
        text = gettext_noop(
            "Needs {count} agents with room, each for another of its containers (up to {each}): resource group"
            " “{group}” has {found} of them now."
        )
        return text, numbers
    if short_of(why.asked_by_kernel, why.best_agent):
        return None
    text = gettext_noop(
        "Needs {count} agents, each for another of its containers (up to {each}), but resource group “{group}” has"
        " only {found} that are large enough. It can never start: cancel it and ask for less."
    )
    return text, numbers


def placement_rule(why: Explanation) -> Said:
    if why.companions is None:
        raise ValueError(f"{why} names no placement group.")
    if why.companions.rule.is_apart:
        text = gettext_noop(
            "The agents that have room for it now ({count}) run others of its placement group, and no two of them may"
            " be on one. It starts when one of these ends, or when there is room on another agent."
        )
    else:
        text = gettext_noop(
            "Waits for room on the agents that run others of its placement group ({count}): it may run on these alone."
        )
    return text, {"count": why.hosts}


def short_of(asked: ResourceSlots, room: ResourceSlots) -> dict[str, int]:
    """Of what is asked, that of which there is too little."""
    return {name: amount for name, amount in asked.items() if amount > room[name]}


def same_slots(room: ResourceSlots, asked: Iterable[str]) -> dict[str, int]:
    """What `room` has of the slots asked for, zeros included."""
    return {name: room[name] for name in asked}
