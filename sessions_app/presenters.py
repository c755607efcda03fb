"""What pages show of a session, worked out here so that templates only display."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from agents.models import AgentSlot
from agents.runtime.base import PullProgress
from agents.selectors import access_resource_group
from agents.states import AgentState
from common.actors import Actor
from common.errors import BerthError, NotFound
from common.slots import CPU, MEM, ResourceSlots, format_bytes, format_slots, parse_slots
from common.tables import Head
from common.words import duration_words
from sessions_app import memory_kills
from sessions_app.links import apps_of
from sessions_app.models import ComputeSession, SessionType
from sessions_app.selectors import Action, may
from sessions_app.states import REASON_SENTENCES, Reason, Status

STAGES = (
    (Status.PENDING, "Queued"),
    (Status.SCHEDULED, "Scheduled"),
    (Status.PREPARING, "Preparing"),
    (Status.STARTING, "Starting"),
    (Status.RUNNING, "Ready"),
)
MAX_COMMAND_IN_ADDRESS = 4000
SIZES = (("Small", "1", "2g"), ("Medium", "2", "4g"), ("Large", "4", "16g"))


def row(actor: Actor, session: ComputeSession) -> dict[str, Any]:
    """One session in a list or on top of its page. No query if it came `with_parts`."""
    return {
        "session": session,
        "slots": format_slots(session.requested_slots),
        "agents": ", ".join(kernel.agent.name for kernel in session.kernels.all() if kernel.agent),
        "apps": apps_of(session) if may(actor, session, Action.OPEN_APP) else [],
        "can_terminate": session.is_live and session.status != Status.TERMINATING,
        "can_open_terminal": session.is_running and may(actor, session, Action.OPEN_TERMINAL),
        "can_start_again": not session.is_live and session.owner_id == actor.user_id,
        "is_own": session.owner_id == actor.user_id,
        "ends_at": session.deadline_at if session.is_running and session.timeout_s else None,
        "headline": headline(session) if session.owner_id == actor.user_id else "",
        "explanation": explanation(session),
        "short_explanation": short_explanation(session),
        "memory_kill": memory_kill(session),
    }


def memory_kill(session: ComputeSession) -> str:
    """What to say of programs that ended for want of memory; empty where none did, or where the session itself ended for it
    and says so."""
    kernel = memory_kills.killed_kernel(session)
    if kernel is None or session.outcome_reason == Reason.OUT_OF_MEMORY:
        return ""
    return memory_kills.sentence(session, kernel)


def headline(session: ComputeSession) -> str:
    """What its owner may expect next, on its page."""
    if session.type == SessionType.BATCH:
        return "The command runs; its output is in the log." if session.is_running else ""
    goal = session.image.app_hints[0].title if session.image.app_hints else "The terminal"
    if session.is_running:
        return f"{goal} is ready."
    if session.is_live and session.status != Status.TERMINATING:
        return f"{goal} opens from here as soon as it is ready; no need to reload."
    return ""


def launcher_query(session: ComputeSession) -> str:
    """The query string that fills the launcher with what `session` asked for; "" if an address cannot hold it.
    Variables are left out: they may hold secrets, and addresses are kept in many places."""
    if len(session.command) > MAX_COMMAND_IN_ADDRESS:
        return ""
    mounts = [mount for mount in session.mounts.all() if mount.folder_id]
    fields = {
        "type": session.type,
        "name": session.name,
        "project": session.project.name,
        "image": session.image_reference,
        "resource_group": session.resource_group.name,
        "cpu": f"{session.slots[CPU] / 1000:g}",
        "mem": f"{session.slots[MEM] // 2**20}m",
        "shm": f"{session.shm_bytes // 2**20}m",
        "folders": [str(mount.folder_id) for mount in mounts],
        "readonly": [str(mount.folder_id) for mount in mounts if mount.is_readonly],
        "command": session.command,
        "timeout_s": session.timeout_s or "",
    }
    return urlencode(fields, doseq=True)


def explanation(session: ComputeSession) -> str:
    """Why it is as it is, where the status alone does not say it."""
    if session.status == Status.RUNNING:
        return ""
    if session.status == Status.PENDING and session.queue_position:
        return f"Number {session.queue_position} in the queue. {session.status_message}"
    return session.status_message


def short_explanation(session: ComputeSession) -> str:
    """The same in a table: one sentence, without what the engine said."""
    if session.status_reason in set(Reason) and session.status != Status.RUNNING:
        return REASON_SENTENCES[Reason(session.status_reason)]
    return explanation(session)


def columns() -> Head:
    """The head of a short table of sessions, without sorting."""
    labels = {"name": "Name", "status": "Status", "resources": "Resources", "machine": "Machine"}
    labels |= {"started": "Started", "actions": ""}
    return Head(
        {"name": name, "label": label, "is_number": name == "started"} for name, label in labels.items()
    )


def steps(session: ComputeSession, pull: PullProgress | None = None) -> list[dict[str, Any]]:
    """The way to ready, as includes/timeline.html shows it. One query."""
    reached: dict[str, datetime] = {}
    for line in session.transitions.all():
        reached.setdefault(line.to_status, line.happened_at)
    end = reached.get(Status.TERMINATING.value) or session.ended_at
    shown = []
    for index, (status, label) in enumerate(STAGES):
        since = reached.get(status.value)
        following = next(
            (reached[later.value] for later, _ in STAGES[index + 1 :] if later.value in reached), end
        )
        shown.append({"label": label, **_step(status, since, following, end)})
        if status is Status.PREPARING and pull and session.status == status:
            shown[-1]["note"] = f"{format_bytes(pull.done_bytes)} of {format_bytes(pull.total_bytes)}"
    return shown


def _step(
    status: Status, since: datetime | None, following: datetime | None, end: datetime | None
) -> dict[str, Any]:
    """Told by the transitions alone: they are read after the session, which may have gone on meanwhile."""
    if since is None:
        return {"state": "ahead"}
    if status is Status.RUNNING:
        return {"state": "past", "at": since}
    if following is None:
        return {"state": "now", "since": since}
    note = duration_words((following - since).total_seconds())
    return {"state": "failed" if following == end else "past", "note": note}


def history(session: ComputeSession) -> list[dict[str, Any]]:
    """Changes of status, newest first, as includes/history.html shows them. One query."""
    return [
        {
            "at": line.happened_at,
            "status": line.to_status,
            "text": "" if line.message.rstrip(".").upper() == line.to_status else line.message,
            "actor": "" if line.actor_label == "system" else line.actor_label,
        }
        for line in reversed(session.transitions.all())
    ]


def sizes(actor: Actor) -> list[dict[str, Any]]:
    """Usual sizes for the launcher: [{"title", "cpu", "mem", "words", "fits"}]; none where there is no machine."""
    try:
        machines = machines_of(access_resource_group(actor).pk)
    except NotFound:
        return []
    shown = []
    for title, cpu, mem in SIZES:
        slots = parse_slots({"cpu": cpu, "mem": mem})
        fits = any(slots.fits_in(capacity) for _, capacity, _ in machines)
        shown.append({"title": title, "cpu": cpu, "mem": mem, "words": format_slots(slots), "fits": fits})
    return shown


def summary(actor: Actor, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Whether what is typed would start now: {"slots", "verdict": now|wait|never|unknown, "sentence", "typed"}."""
    try:
        slots = parse_slots({"cpu": typed.get("cpu", ""), "mem": typed.get("mem", "")})
        group = access_resource_group(actor, typed.get("resource_group", ""))
    except (ValueError, BerthError) as error:
        return {"verdict": "unknown", "sentence": str(error), "slots": "", "typed": typed}
    machines = machines_of(group.pk)
    with_room = [name for name, capacity, free in machines if slots.fits_in(free)]
    if not machines:
        verdict, sentence = "wait", f"Would wait: “{group.name}” has no machine that takes sessions."
    elif with_room:
        verdict, sentence = "now", f"Starts now on {with_room[0]}."
    elif any(slots.fits_in(capacity) for _, capacity, _ in machines):
        verdict, sentence = "wait", "Would wait: every machine that is large enough is in use."
    else:
        largest = max((capacity for _, capacity, _ in machines), key=lambda capacity: capacity[MEM])
        verdict, sentence = "never", f"No machine is that large. The largest has {format_slots(largest)}."
    return {"verdict": verdict, "sentence": sentence, "slots": format_slots(slots), "typed": typed}


def machines_of(group_id: int) -> list[tuple[str, ResourceSlots, ResourceSlots]]:
    """(name, capacity, free) of each machine that takes sessions, by name. One query."""
    rows = AgentSlot.objects.filter(agent__resource_group_id=group_id, agent__state=AgentState.CONNECTED)
    found: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    values = rows.order_by("agent__name").values_list("agent__name", "slot_name", "capacity", "occupied")
    for name, slot_name, capacity, occupied in values:
        total, free = found.setdefault(name, ({}, {}))
        total[slot_name], free[slot_name] = capacity, capacity - occupied
    return [(name, ResourceSlots(total), ResourceSlots(free)) for name, (total, free) in found.items()]
