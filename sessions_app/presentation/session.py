"""Compute session data for templates: rows, explanations, start-up steps, history."""

from collections.abc import Mapping
from datetime import datetime
from string import Formatter
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from agents.models import ImageTransfer
from common.actors import Actor
from common.pages.tables import Head
from common.values.durations import format_duration
from common.values.resources import ResourceSlots, format_bytes, format_slots
from common.values.stored_message import StoredMessage
from sessions_app.app_services.urls import app_links
from sessions_app.core.queue_options import Hold
from sessions_app.core.states import REASON_SENTENCES, Reason, Status
from sessions_app.dotfiles import delivery
from sessions_app.idle.facts import find_next_end
from sessions_app.models import ComputeSession, SessionType
from sessions_app.selectors import Action, is_stoppable, may
from sessions_app.termination import oom_kills

STAGES = (
    (Status.PENDING, gettext_noop("Queued")),
    (Status.SCHEDULED, gettext_noop("Scheduled")),
    (Status.PREPARING, gettext_noop("Preparing")),
    (Status.STARTING, gettext_noop("Starting")),
    (Status.RUNNING, gettext_noop("Ready")),
)


# By reason code (scheduler.engine.ReasonCode): the first text whose arguments the message has.
_SHORT_REASONS: dict[str, tuple[str, ...]] = {
    "group_paused": (gettext_noop("Group paused"),),
    "no_agents": (gettext_noop("No agent takes it now"),),
    "agent_unavailable": (gettext_noop("Its agent takes none now"),),
    "storage_unreached": (gettext_noop("Storage host not reached: {hosts}"),),
    "no_such_device": (
        gettext_noop("Too old: {api} {asked} needed, {most} at most"),
        gettext_noop("No such device: {asked} requested, {most} at most"),
        gettext_noop("No such device"),
    ),
    "devices_withheld": (gettext_noop("In quarantine or withheld: {withheld}"),),
    "never_fits": (
        gettext_noop("Never fits: {short} requested, {room} at most"),
        gettext_noop("Never fits: {count} agents needed, {found} there"),
    ),
    "no_capacity": (
        gettext_noop("No room: {short} requested, {room} free"),
        gettext_noop("No room: {count} agents needed, {found} free"),
    ),
    "fragmented": (
        gettext_noop("No room: {short} requested, {room} on one agent"),
        gettext_noop("No room: {asked} requested, {room} in one piece"),
        gettext_noop("No room: {count} agents needed, {found} free"),
        gettext_noop("Free, but on too many agents"),
    ),
    "budget_spent": (gettext_noop("Budget used up"),),
    "limit_reached": (gettext_noop("Limit: {held} of {most} allocated"),),
    "kept_free": (gettext_noop("Backfill reservation ahead"),),
    "priority": (gettext_noop("Higher priority ahead: {count}"),),
    "making_room": (gettext_noop("Preemption in progress"),),
    "placement_rule": (gettext_noop("Placement group: {count} agents"),),
    "reservation": (
        gettext_noop("Reserved until {until} UTC"),
        gettext_noop("Reserved for it from {start} UTC"),
    ),
}


def short_reason(code: str, sentence: StoredMessage) -> StoredMessage:
    """Return the short form of the message for reason `code`, or the message itself if there is none."""
    for text in _SHORT_REASONS.get(code, ()):
        if all(name in sentence.arguments for _, name, _, _ in Formatter().parse(text) if name):
            return StoredMessage(text, sentence.arguments)
    return sentence


def row(actor: Actor, session: ComputeSession) -> dict[str, Any]:
    """Return one session for a list or the head of its page. No query if it came `with_parts`."""
    may_stop = is_stoppable(session) and may(actor, session, Action.TERMINATE)
    return {
        "session": session,
        "slots": slot_words(session.slots_of_all, session.kernel_count),
        "agents": agent_names(session),
        "apps": app_links(session) if may(actor, session, Action.OPEN_APP) else [],
        "can_terminate": may_stop and not session.stops_at,
        "can_keep": may_stop and bool(session.stops_at),
        "can_open_terminal": session.is_running and may(actor, session, Action.OPEN_TERMINAL),
        "can_start_again": not session.is_live and session.owner_id == actor.user_id,
        "is_own": session.owner_id == actor.user_id,
        "ends_at": outlook.ends_at if (outlook := find_next_end(session)) else None,
        "starts_at": session.start_at if session.held_for == Hold.START_TIME and session.is_live else None,
        "headline": headline(session) if session.owner_id == actor.user_id else "",
        "explanation": explanation(session),
        "short_explanation": short_explanation(session),
        "list_explanation": list_explanation(session),
        "memory_kill": memory_kill(session),
    }


def slot_words(slots: ResourceSlots, count: int) -> str:
    """Return what a session asks for: «4 cores, 8 GiB in 2 containers». `slots` are those of all."""
    words = format_slots(slots)
    return words if count == 1 else _("{amounts} in {count} containers").format(amounts=words, count=count)


def agent_names(session: ComputeSession) -> str:
    """Return the machines of its containers, each once. No query if they were loaded."""
    names = [kernel.agent.name for kernel in session.kernels.all() if kernel.agent]
    return ", ".join(dict.fromkeys(names))


def memory_kill(session: ComputeSession) -> str:
    """Return a sentence about out-of-memory kills in the session; "" if there was none, or if the
    session itself ended for that reason.
    """
    kernel = oom_kills.killed_kernel(session)
    if kernel is None or session.outcome_reason == Reason.OUT_OF_MEMORY:
        return ""
    return str(oom_kills.memory_kill_message(session, kernel))


def headline(session: ComputeSession) -> str:
    """Return a sentence for the owner about the next step (ready, or what opens when ready)."""
    if session.type == SessionType.BATCH:
        return _("The command runs; its output is in the log.") if session.is_running else ""
    app = session.image.app_hints[0].title if session.image.app_hints else ""
    if session.is_running:
        return _("{app} is ready.").format(app=app) if app else _("The terminal is ready.")
    if not session.is_live or session.status == Status.TERMINATING:
        return ""
    if not app:
        return _("The terminal opens from here as soon as it is ready; no need to reload.")
    return _("{app} opens from here as soon as it is ready; no need to reload.").format(app=app)


def launcher_query(session: ComputeSession, changes: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the launcher's query string for a copy of `session` with `changes`. It holds only the
    session's id, because variables may hold secrets and URLs end up in logs and histories.
    """
    return urlencode({"like": session.pk, **changes})


def explanation(session: ComputeSession) -> str:
    """Return the reason for the session's state; "" if the status is enough."""
    if session.status == Status.RUNNING:
        return ""
    if session.status == Status.PENDING and session.queue_position:
        sentence = _("Number {position} in the queue. {why}")
        return sentence.format(position=session.queue_position, why=session.status_message)
    return str(session.status_message)


def short_explanation(session: ComputeSession) -> str:
    """Return the explanation for a table: one sentence without the engine's message."""
    if session.stops_at and is_stoppable(session):
        return _("It will be stopped in a moment.")
    if session.status_reason in set(Reason) and session.status != Status.RUNNING:
        return str(REASON_SENTENCES[Reason(session.status_reason)])
    return explanation(session)


def list_explanation(session: ComputeSession) -> str:
    """Return the explanation for a list: the shortened reason for waiting, with queue position."""
    if session.status != Status.PENDING or session.status_reason in set(Reason):
        return short_explanation(session)
    why = short_reason(session.status_reason, session.status_message)
    if not session.queue_position:
        return str(why)
    return _("No. {position} · {why}").format(position=session.queue_position, why=why)


def columns() -> Head:
    """Return the head of a short table of sessions, without sorting."""
    labels = {"name": _("Name"), "status": _("Status"), "resources": _("Resources"), "machine": _("Machine")}
    labels |= {"started": _("Requested"), "actions": ""}
    return Head(
        {"name": name, "label": label, "is_number": name == "started"} for name, label in labels.items()
    )


def steps(session: ComputeSession, transfer: ImageTransfer | None = None) -> list[dict[str, Any]]:
    """Return the steps to readiness for includes/timeline.html. One query."""
    reached: dict[str, datetime] = {}
    for line in session.transitions.all():
        if line.to_status == Status.PENDING:
            reached.clear()  # discard earlier attempts
        reached.setdefault(line.to_status, line.happened_at)
    end = reached.get(Status.TERMINATING.value) or session.ended_at
    shown = []
    for index, (status, label) in enumerate(STAGES):
        since = reached.get(status.value)
        following = next(
            (reached[later.value] for later, _label in STAGES[index + 1 :] if later.value in reached), end
        )
        shown.append({"label": _(label), **_step(status, since, following, end)})
        if status is Status.PREPARING and transfer and session.status == status:
            done, total = transfer.done_bytes, transfer.total_bytes
            shown[-1] |= {"note": transfer_words(transfer), "done": done, "total": total}
    return shown


def transfer_words(transfer: ImageTransfer) -> str:
    """Return what an image on its way to a machine does now, like “Pulling berth/python: 1 of 4 MiB”."""
    values = {
        "image": transfer.reference,
        "agent": transfer.source.name if transfer.source else "",
        "done": format_bytes(transfer.done_bytes),
        "total": format_bytes(transfer.total_bytes),
    }
    if transfer.started_at is None:
        return _("{image} is not on the machine yet; its transfer begins in a moment").format(**values)
    if not transfer.total_bytes:
        return _("Asking for {image}").format(**values)
    if transfer.done_bytes >= transfer.total_bytes:
        return _("Unpacking {image}, {total}").format(**values)
    if transfer.source:
        return _("Copying {image} from {agent}: {done} of {total}").format(**values)
    return _("Pulling {image}: {done} of {total}").format(**values)


def _step(
    status: Status, since: datetime | None, following: datetime | None, end: datetime | None
) -> dict[str, Any]:
    """Return the state of one step from the transitions alone: they were read after the session,
    which may have changed in between.
    """
    if since is None:
        return {"state": "ahead"}
    if status is Status.RUNNING:
        return {"state": "past", "at": since}
    if following is None:
        return {"state": "now", "since": since}
    note = format_duration((following - since).total_seconds())
    return {"state": "failed" if following == end else "past", "note": note}


def history(actor: Actor, session: ComputeSession) -> list[dict[str, Any]]:
    """Return status changes and results of the home set-up, newest first, for
    includes/history.html. One query.
    """
    changes = [
        {
            "at": line.happened_at,
            "status": line.to_status,
            "text": "" if line.to_status == Status.RUNNING else str(line.message),  # the badge shows it
            "actor": "" if line.actor_label == "system" else line.actor_label,
        }
        for line in reversed(session.transitions.all())
    ]
    return sorted([*changes, *_setup_entries(actor, session)], key=lambda entry: entry["at"], reverse=True)


def _setup_entries(actor: Actor, session: ComputeSession) -> list[dict[str, Any]]:
    """Return entries about the home set-up; owner only, because file names are private."""
    setup = delivery.find_setup(session) if session.owner_id == actor.user_id else None
    if setup is None or session.started_at is None:
        return []
    ran = delivery.script_sentence(setup)
    found = [{"at": setup.ended_at or session.started_at, "title": ran}] if ran else []
    return [
        *found,
        *({"at": session.started_at, "title": sentence} for sentence in delivery.skipped_sentences(setup)),
    ]
