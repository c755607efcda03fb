"""Explain each pending reason in a sentence, from its code and numbers. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from agents.core.sandboxes import SANDBOX_NAMES
from common.i18n import gettext_noop
from common.values.resources import MEM, MILLI, ResourceSlots, format_version
from common.values.stored_message import Argument, StoredMessage
from scheduler.engine import Closure, Demand, Excess, Explanation, FreeDevices, Gang, LinkedRoom, ReasonCode
from scheduler.engine.policy.quota_tracker import GROUP, GROUP_USER, OF_GROUP

Message = tuple[str, dict[str, Argument]]

OTHER_PROJECT = gettext_noop(
    "Waits for a device of which no other project has parts: by MPS, sessions of one project at a time share a "
    "device. It starts when such a device has room, or one is wholly free."
)
FOR_ROOM = (ReasonCode.NEVER_FITS, ReasonCode.NO_CAPACITY, ReasonCode.FRAGMENTED)


def _gang_message(why: Explanation) -> Message | None:
    """Return the message of a session with several kernels; None if their arrangement does not
    matter.
    """
    if why.kernel_count == 1 or why.reason not in FOR_ROOM:
        return None
    if why.gang is Gang.ONE_MACHINE:
        return _on_one_machine(why)
    return _spread(why) if why.gang is Gang.SPREAD else None


def _on_one_machine(why: Explanation) -> Message:
    short = _missing_slots(why.requested, why.best_agent)
    room: dict[str, Argument] = {
        "short": short or why.requested.to_json(),
        "room": _slots_like(why.best_agent, short or why.requested),
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


def _spread(why: Explanation) -> Message | None:
    numbers: dict[str, Argument] = {
        "count": why.kernel_count,
        "each": why.requested_by_kernel.to_json(),
        "found": why.agents_with_room,
    }
    if why.reason is not ReasonCode.NEVER_FITS:
        text = gettext_noop(
            "Needs {count} agents with room, each for another of its containers (up to {each}): resource group"
            " “{group}” has {found} of them now."
        )
        return text, numbers
    if _missing_slots(why.requested_by_kernel, why.best_agent):
        return None
    text = gettext_noop(
        "Needs {count} agents, each for another of its containers (up to {each}), but resource group “{group}” has"
        " only {found} that are large enough. It can never start: cancel it and ask for less."
    )
    return text, numbers


def _placement_rule(why: Explanation) -> Message:
    if why.placement_group is None:
        raise ValueError(f"{why} names no placement group.")
    if why.placement_group.rule.is_spread:
        text = gettext_noop(
            "The agents that have room for it now ({count}) run others of its placement group, and no two of them may"
            " be on one. It starts when one of these ends, or when there is room on another agent."
        )
    else:
        text = gettext_noop(
            "Waits for room on the agents that run others of its placement group ({count}): it may run on these alone."
        )
    return text, {"count": why.host_count}


def _missing_slots(asked: ResourceSlots, room: ResourceSlots) -> dict[str, int]:
    """Return the requested amounts that exceed `room`."""
    return {name: amount for name, amount in asked.items() if amount > room[name]}


def _slots_like(room: ResourceSlots, asked: Iterable[str]) -> dict[str, int]:
    """Return what `room` has of the requested slots, zeros included."""
    return {name: room[name] for name in asked}


def message_for(why: Explanation, group_name: str) -> StoredMessage:
    """Return the sentence that says why the session waits and what would let it start: «Waits for 2
    cuda: the agent of resource group “lab” with the most room has 1 cuda free.»
    """
    text, arguments = _gang_message(why) or MESSAGES[why.reason](why)
    return StoredMessage(text, {"group": group_name, **arguments})


class MessageTable(NamedTuple):
    """Messages of explanations as arguments of SQL: the distinct ones as rows (number, reason,
    message), and the number of each explanation's row.
    """

    rows: list[dict[str, object]]
    numbers: list[int]


def message_table(explanations: Sequence[Explanation], group_name: str) -> MessageTable:
    numbers = {why: number for number, why in enumerate(dict.fromkeys(explanations))}
    rows: list[dict[str, object]] = [
        {"number": number, "reason": why.reason.value, "message": message_for(why, group_name).to_json()}
        for why, number in numbers.items()
    ]
    return MessageTable(rows, [numbers[why] for why in explanations])


def _group_paused(why: Explanation) -> Message:
    text = gettext_noop(
        "Resource group “{group}” is paused: nothing starts there until an administrator resumes it."
    )
    return text, {}


_IN_MAINTENANCE = gettext_noop(
    "All agents of resource group “{group}” that could run it are in maintenance{because}. It starts when one takes sessions"
    " again."
)
_IN_MAINTENANCE_UNTIL = gettext_noop(
    "All agents of resource group “{group}” that could run it are in maintenance until {until} UTC{because}."
)
_NO_SANDBOX = gettext_noop(
    "No agent of resource group “{group}” that could run it has the sandbox {sandbox}. It starts when one does: ask an"
    " administrator to install it, or cancel it and choose another group."
)
_DESIGNATED = {
    _IN_MAINTENANCE: gettext_noop(
        "The agent that this session must run on is in maintenance{because}. It starts when that agent takes sessions again."
    ),
    _IN_MAINTENANCE_UNTIL: gettext_noop(
        "The agent that this session must run on is in maintenance until {until} UTC{because}."
    ),
    _NO_SANDBOX: gettext_noop(
        "The agent that this session must run on lacks the sandbox {sandbox} of resource group “{group}”. Cancel it and choose"
        " another agent."
    ),
}


def _closure_message(why: Explanation, closure: Closure) -> Message:
    if closure.sandbox:
        text, arguments = _NO_SANDBOX, dict[str, Argument](sandbox=SANDBOX_NAMES[closure.sandbox])
    else:
        arguments = {"because": f": {closure.because}" if closure.because else ""}
        text = _IN_MAINTENANCE
        if closure.until is not None:
            text, arguments = _IN_MAINTENANCE_UNTIL, arguments | {"until": _clock(closure.until)}
    return (_DESIGNATED[text] if why.reason is ReasonCode.AGENT_UNAVAILABLE else text), arguments


def _no_agents(why: Explanation) -> Message:
    if why.closure is not None:
        return _closure_message(why, why.closure)
    if why.device_model:
        text = gettext_noop(
            "No agent of resource group “{group}” with {model} takes sessions now. It starts when one does."
        )
        return text, {"model": why.device_model}
    text = gettext_noop(
        "No agent of resource group “{group}” takes {architecture} sessions now. It starts when one does."
    )
    return text, {"architecture": why.architecture}


def _agent_unavailable(why: Explanation) -> Message:
    if why.is_host_gone:
        text = gettext_noop(
            "The agent that this session must run on cannot run it any more: it was retired, is in another resource group, or has"
            " other accelerators now. Cancel it and choose another agent."
        )
        return text, {}
    if why.closure is not None:
        return _closure_message(why, why.closure)
    text = gettext_noop(
        "The agent that this session must run on takes no sessions now. It starts when that agent does."
    )
    return text, {}


def _storage_unreached(why: Explanation) -> Message:
    if why.gang is Gang.SPREAD and why.kernel_count > 1:
        text = gettext_noop(
            "Each of its {count} containers needs an agent of its own, and too few of resource group “{group}” reach the storage"
            " host of its folders: {hosts}. It starts when enough do: ask an administrator to check the host on the page Storage"
            " hosts, or cancel it and ask for fewer containers."
        )
        return text, {"hosts": ", ".join(why.unreached_hosts), "count": why.kernel_count}
    text = gettext_noop(
        "No agent of resource group “{group}” that could run it reaches the storage host of its folders: {hosts}. It starts when"
        " one does: ask an administrator to check the host on the page Storage hosts, or cancel it and choose another group."
    )
    return text, {"hosts": ", ".join(why.unreached_hosts)}


_API_NAMES = {"cuda": "CUDA", "mig": "CUDA", "rocm": "ROCm"}  # by the beginning of a slot's name

_UNMET = {
    Demand.MEMORY: gettext_noop(
        "Asks for accelerators with {asked} of memory each, but the largest of resource group “{group}” have {most}. It can"
        " start there only when an agent with larger ones is added: cancel it and ask for less, or for another group."
    ),
    Demand.VERSION: gettext_noop(
        "Needs {api} {asked}, but the agents of resource group “{group}” run at most {most}. It starts when the driver of one"
        " is new enough: else cancel it and choose another image or group."
    ),
    Demand.ISOLATION: gettext_noop(
        "Parts of accelerators in resource group “{group}” are not isolated as well as it asks. Cancel it and ask for less"
        " isolation, for a whole device, or for another group."
    ),
    Demand.LINKS: gettext_noop(
        "Asks for {asked} that are linked with each other on one agent, but resource group “{group}” has no more than {most}."
        " It can never start: cancel it and ask for less, or for devices that need no link."
    ),
    Demand.PROJECT: OTHER_PROJECT,
}


def _no_such_device(why: Explanation) -> Message:
    unmet = why.unmet
    if unmet is None:
        raise ValueError(f"{why} names no demand.")
    if unmet.demand is Demand.MEMORY:
        return _UNMET[unmet.demand], {"asked": {MEM: unmet.asked}, "most": {MEM: unmet.most}}
    if unmet.demand is Demand.VERSION:
        versions = {"asked": format_version(unmet.asked), "most": format_version(unmet.most)}
        api = next((api for name, api in _API_NAMES.items() if unmet.slot_name.startswith(name)), "")
        return _UNMET[unmet.demand], {"api": api or unmet.slot_name, **versions}
    if unmet.demand is Demand.LINKS:
        name = unmet.slot_name
        return _UNMET[unmet.demand], {"asked": {name: unmet.asked}, "most": {name: unmet.most}}
    return _UNMET[unmet.demand], {}


def _never_fits(why: Explanation) -> Message:
    if short := _missing_slots(why.requested_by_kernel, why.best_agent):
        text = gettext_noop(
            "Asks for {short} on one agent, but the largest of resource group “{group}” has only {room}."
            " It can never start: cancel it and ask for less."
        )
        return text, {"short": short, "room": _slots_like(why.best_agent, short)}
    short = _missing_slots(why.requested, why.group_total)
    text = gettext_noop(
        "Asks for {short} in {count} containers, but all agents of resource group “{group}” have only {room}"
        " together. It can never start: cancel it and ask for less."
    )
    room = _slots_like(why.group_total, short)
    return text, {"short": short, "room": room, "count": why.kernel_count}


def _devices_withheld(why: Explanation) -> Message:
    names = [*why.withheld]
    text = gettext_noop(
        "Waits for {asked}: agents of resource group “{group}” that could run it have {withheld} that are in quarantine or"
        " withheld for another reason. It starts when enough of them are released: ask an administrator, or cancel it and ask"
        " for less."
    )
    return text, {"asked": _slots_like(why.requested, names), "withheld": why.withheld.to_json()}


def _no_capacity(why: Explanation) -> Message:
    if why.kernel_count == 1:
        short = _missing_slots(why.requested, why.best_agent)
        text = gettext_noop(
            "Waits for {short}: the agent of resource group “{group}” with the most room has {room} free."
        )
        return text, {"short": short, "room": _slots_like(why.best_agent, short)}
    short = _missing_slots(why.requested, why.group_total)
    text = gettext_noop(
        "Waits for {short} for its {count} containers together: resource group “{group}” has {room} free."
    )
    room = _slots_like(why.group_total, short)
    return text, {"short": short, "room": room, "count": why.kernel_count}


def _fragmented(why: Explanation) -> Message:
    if why.linked is not None:
        return _not_linked(why, why.linked)
    if (
        why.kernel_count == 1
        and why.devices is not None
        and not _missing_slots(why.requested, why.best_agent)
    ):
        return _devices_fragmented(why, why.devices)
    if why.kernel_count == 1:
        short = _missing_slots(why.requested, why.best_agent)
        text = gettext_noop(
            "Waits for {short} on one agent: resource group “{group}” has {in_all} free in total, but the agent with the most"
            " room only {room}."
        )
        in_all, room = _slots_like(why.group_total, short), _slots_like(why.best_agent, short)
        return text, {"short": short, "in_all": in_all, "room": room}
    each = why.requested_by_kernel
    text = gettext_noop(
        "Waits for room for all {count} containers at once, up to {each} on one agent: resource group “{group}”"
        " has {in_all} free, but on too many agents."
    )
    in_all = _slots_like(why.group_total, each)
    return text, {"count": why.kernel_count, "each": each.to_json(), "in_all": in_all}


def _not_linked(why: Explanation, linked: LinkedRoom) -> Message:
    name = linked.slot_name
    text = gettext_noop(
        "Waits for {asked} that are linked with each other on one agent: resource group “{group}” has {in_all} free in total,"
        " but no more than {room} that are linked on an agent with room for the rest."
    )
    in_all = _slots_like(why.group_total, [name])
    return text, {"asked": {name: linked.asked}, "in_all": in_all, "room": {name: linked.most}}


def _devices_fragmented(why: Explanation, devices: FreeDevices) -> Message:
    name = devices.slot_name
    arguments: dict[str, Argument] = {
        "asked": {name: why.requested[name]},
        "in_all": _slots_like(why.group_total, [name]),
    }
    if why.requested[name] % MILLI:
        text = gettext_noop(
            "Waits for {asked} of one device: resource group “{group}” has {in_all} free in total, but of no device more than"
            " {room} on an agent with room for the rest."
        )
        return text, {**arguments, "room": {name: devices.most_of_one}}
    text = gettext_noop(
        "Waits for {asked} in whole devices on one agent: resource group “{group}” has {in_all} free in total, but in parts of"
        " devices that others share, or on agents without room for the rest; no agent with room for the rest has more than"
        " {room} whole."
    )
    return text, {**arguments, "room": {name: devices.whole}}


def _kept_free(why: Explanation) -> Message:
    if why.is_end_known:
        text = gettext_noop(
            "There would be room now, but it is reserved for a session that is ahead and needs more of it. It starts after that"
            " one, or at once with a time limit short enough to end before."
        )
    else:
        text = gettext_noop(
            "There would be room now, but it is reserved for a session that is ahead and needs more of it. It starts after that"
            " one."
        )
    return text, {}


def _priority(why: Explanation) -> Message:
    if why.is_raise_enough:
        text = gettext_noop(
            "There would be room now, but sessions with a higher priority ({count}) are ahead and it is reserved for them. It"
            " starts after them, or now with a priority above theirs."
        )
    else:
        text = gettext_noop(
            "There would be room now, but sessions with a higher priority ({count}) are ahead and it is reserved for them. It"
            " starts after them."
        )
    return text, {"count": why.ahead}


def _making_room(why: Explanation) -> Message:
    text = gettext_noop(
        "Sessions with a lower priority are being ended to make room for it. It starts when they are gone."
    )
    return text, {}


def _reservation(why: Explanation) -> Message:
    reserved = why.reserved
    if reserved is None:
        raise ValueError(f"{why} names no reservation.")
    if reserved.is_own and reserved.starts_at is not None:
        text = gettext_noop(
            "A reservation that it may use begins at {start} UTC on a machine that could run it. It can start there then, or"
            " before with a time limit short enough to end by then."
        )
        return text, {"start": _clock(reserved.starts_at)}
    arguments: dict[str, Argument] = {"count": reserved.agents, "until": _clock(reserved.until)}
    if reserved.starts_at is None:
        text = gettext_noop(
            "The machines that could run it now ({count}) are reserved for others, the first of them until {until} UTC."
        )
        return text, arguments
    text = gettext_noop(
        "The machines that could run it now ({count}) will be reserved for others, the first of them from {start} to"
        " {until} UTC: it starts before with a time limit short enough to end by then."
    )
    return text, {**arguments, "start": _clock(reserved.starts_at)}


def _clock(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}"


# By level: allocated amounts leave too little.
_HELD = {
    "domain": gettext_noop(
        "Waits for {short}: sessions of the domain “{name}” have {held} of {most} allocated. It starts when some of them end."
    ),
    "project": gettext_noop(
        "Waits for {short}: sessions of the project “{name}” have {held} of {most} allocated. It starts when some of them end."
    ),
    "user": gettext_noop(
        "Waits for {short}: sessions of {name} have {held} of {most} allocated. It starts when some of them end."
    ),
    "keypair": gettext_noop(
        "Waits for {short}: sessions of the token “{name}” have {held} of {most} allocated. It starts when some of them end."
    ),
    GROUP: gettext_noop(
        "Waits for {short}: the limit “{name}” of resource group “{group}” is {most} for all sessions together, with {held}"
        " allocated. It starts when some of them end."
    ),
    GROUP_USER: gettext_noop(
        "Waits for {short}: the limit “{name}” of resource group “{group}” is {most} per person, with {held} allocated to"
        " sessions of its owner. It starts when some of them end."
    ),
}

_NEVER = {
    "domain": gettext_noop(
        "Asks for {short}, but the limit of all sessions of the domain “{name}” is {most}: cancel it and ask for less."
    ),
    "project": gettext_noop(
        "Asks for {short}, but the limit of all sessions of the project “{name}” is {most}: cancel it and ask for less."
    ),
    "user": gettext_noop(
        "Asks for {short}, but the limit of all sessions of {name} is {most}: cancel it and ask for less."
    ),
    "keypair": gettext_noop(
        "Asks for {short}, but the limit of all sessions of the token “{name}” is {most}: cancel it and ask for less."
    ),
    GROUP: gettext_noop(
        "Asks for {short}, but the limit “{name}” of resource group “{group}” is {most} for all sessions together: cancel it"
        " and ask for less."
    ),
    GROUP_USER: gettext_noop(
        "Asks for {short}, but the limit “{name}” of resource group “{group}” is {most} per person: cancel it and ask for less."
    ),
}

_HELD_UNTIL = {
    GROUP: gettext_noop(
        "Waits for {short}: the limit “{name}” of resource group “{group}” is {most} for all sessions together until {until}"
        " UTC, with {held} allocated. It starts when some of them end, or then."
    ),
    GROUP_USER: gettext_noop(
        "Waits for {short}: the limit “{name}” of resource group “{group}” is {most} per person until {until} UTC, with {held}"
        " allocated to sessions of its owner. It starts when some of them end, or then."
    ),
}

_NOT_BEFORE = {
    GROUP: gettext_noop(
        "Waits until {until} UTC: until then the limit “{name}” of resource group “{group}” is {most} for all sessions"
        " together, and it asks for {short}."
    ),
    GROUP_USER: gettext_noop(
        "Waits until {until} UTC: until then the limit “{name}” of resource group “{group}” is {most} per person, and it asks"
        " for {short}."
    ),
}


_SPENT = {
    "project": gettext_noop(
        "The budget of the project “{name}” is used up. It starts when a new period begins, or the budget is raised."
    ),
    "user": gettext_noop(
        "The budget of {name} is used up. It starts when a new period begins, or the budget is raised."
    ),
}


def _budget_spent(why: Explanation) -> Message:
    allowance = _excess_of(why).quota
    return _SPENT[allowance.level], {"name": allowance.name}


def _limit_reached(why: Explanation) -> Message:
    excess = _excess_of(why)
    can_start = all(amount <= excess.limit[name] for name, amount in excess.requested.items())
    level, until = excess.quota.level, excess.quota.until
    arguments: dict[str, Argument] = {
        "name": excess.quota.name, "short": excess.requested, "held": excess.allocated, "most": excess.limit,
    }  # fmt: skip
    if until is None:
        return (_HELD if can_start else _NEVER)[level], arguments
    return (_HELD_UNTIL if can_start else _NOT_BEFORE)[level], arguments | {"until": _clock(until)}


# Who may edit the policy or budget of each level.
_WHO_MAY_RAISE = {
    "domain": gettext_noop("A superadmin may raise the limit of the domain."),
    "project": gettext_noop("An administrator of its domain may raise the limit of the project."),
    "user": gettext_noop("An administrator of the domain may raise the limit of a person."),
    "keypair": gettext_noop("An administrator of the domain may raise the limit of a token."),
    **dict.fromkeys(OF_GROUP, gettext_noop("A superadmin may change the limits of the resource group.")),
}


_WHO_MAY_PRIORITIZE = gettext_noop(
    "Its owner and administrators of the domain may raise its priority as far as policies allow, superadmins beyond that."
)


def who_may_raise(why: Explanation) -> StoredMessage:
    """Return who may raise the limit or priority in the way; empty if there is none."""
    if why.reason is ReasonCode.PRIORITY:
        return StoredMessage(_WHO_MAY_PRIORITIZE)
    return StoredMessage(_WHO_MAY_RAISE[why.excess.quota.level]) if why.excess else StoredMessage()


def _excess_of(why: Explanation) -> Excess:
    if why.excess is None:
        raise ValueError(f"{why} names no limit.")
    return why.excess


MESSAGES: dict[ReasonCode, Callable[[Explanation], Message]] = {
    ReasonCode.GROUP_PAUSED: _group_paused,
    ReasonCode.NO_AGENTS: _no_agents,
    ReasonCode.AGENT_UNAVAILABLE: _agent_unavailable,
    ReasonCode.STORAGE_UNREACHED: _storage_unreached,
    ReasonCode.NO_SUCH_DEVICE: _no_such_device,
    ReasonCode.NEVER_FITS: _never_fits,
    ReasonCode.DEVICES_WITHHELD: _devices_withheld,
    ReasonCode.NO_CAPACITY: _no_capacity,
    ReasonCode.BUDGET_SPENT: _budget_spent,
    ReasonCode.LIMIT_REACHED: _limit_reached,
    ReasonCode.FRAGMENTED: _fragmented,
    ReasonCode.KEPT_FREE: _kept_free,
    ReasonCode.PRIORITY: _priority,
    ReasonCode.MAKING_ROOM: _making_room,
    ReasonCode.RESERVATION: _reservation,
    ReasonCode.PLACEMENT_RULE: _placement_rule,
}
