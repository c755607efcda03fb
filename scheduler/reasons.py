"""The sentence for people behind each reason to wait, derived from the code and its numbers alone."""

from collections.abc import Callable

from common.slots import ResourceSlots, format_slots
from scheduler.engine import Deferral, ReasonCode


def sentence_for(deferral: Deferral, group_name: str) -> str:
    """Why the session waits and what would let it start: «Waits for 2 cuda: the agent of resource group “lab”
    with the most room has 1 cuda free.»"""
    return SENTENCES[deferral.reason](deferral, f"resource group “{group_name}”")


def _no_agents(deferral: Deferral, group: str) -> str:
    return f"No agent of {group} takes {deferral.architecture} sessions now. It starts when one does."


def _agent_unavailable(deferral: Deferral, group: str) -> str:
    return "The agent that this session must run on takes no sessions now. It starts when that agent does."


def _never_fits(deferral: Deferral, group: str) -> str:
    advice = "It can never start: cancel it and ask for less."
    short = _short(deferral.asked_by_kernel, deferral.best_agent)
    if short:
        return (
            f"Asks for {format_slots(short)} on one agent, but the largest of {group} has only"
            f" {_same_slots(deferral.best_agent, short)}. {advice}"
        )
    short = _short(deferral.asked, deferral.group)
    return (
        f"Asks for {format_slots(short)} in {deferral.kernel_count} containers, but all agents of {group}"
        f" have only {_same_slots(deferral.group, short)} together. {advice}"
    )


def _no_capacity(deferral: Deferral, group: str) -> str:
    if deferral.kernel_count == 1:
        short = _short(deferral.asked, deferral.best_agent)
        return (
            f"Waits for {format_slots(short)}: the agent of {group} with the most room has"
            f" {_same_slots(deferral.best_agent, short)} free."
        )
    short = _short(deferral.asked, deferral.group)
    return (
        f"Waits for {format_slots(short)} for its {deferral.kernel_count} containers together:"
        f" {group} has {_same_slots(deferral.group, short)} free."
    )


def _fragmented(deferral: Deferral, group: str) -> str:
    if deferral.kernel_count == 1:
        short = _short(deferral.asked, deferral.best_agent)
        return (
            f"Waits for {format_slots(short)} on one agent: {group} has {_same_slots(deferral.group, short)}"
            f" free in all, but the agent with the most room only {_same_slots(deferral.best_agent, short)}."
        )
    each = deferral.asked_by_kernel
    return (
        f"Waits for room for all {deferral.kernel_count} containers at once, up to {format_slots(each)} on"
        f" one agent: {group} has {_same_slots(deferral.group, each)} free, but on too many agents."
    )


def _short(asked: ResourceSlots, room: ResourceSlots) -> ResourceSlots:
    return ResourceSlots({name: amount for name, amount in asked.items() if amount > room[name]})


def _same_slots(room: ResourceSlots, asked: ResourceSlots) -> str:
    """What `room` has of the slots asked for, zeros included."""
    return format_slots({name: room[name] for name in asked})


SENTENCES: dict[ReasonCode, Callable[[Deferral, str], str]] = {
    ReasonCode.NO_AGENTS: _no_agents,
    ReasonCode.AGENT_UNAVAILABLE: _agent_unavailable,
    ReasonCode.NEVER_FITS: _never_fits,
    ReasonCode.NO_CAPACITY: _no_capacity,
    ReasonCode.FRAGMENTED: _fragmented,
}
