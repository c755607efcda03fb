"""Compute the content of a session's page: tabs, outcome with remedies, meters, callbacks."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.actors import Actor
from common.i18n import paragraph
from common.values.durations import format_duration
from common.values.resources import CPU, MEM, format_bytes
from images.core.labels import AppHint
from sessions_app.callbacks.delivery import find_callback_url, list_deliveries
from sessions_app.core.callbacks import CallbackEvent, Fault
from sessions_app.core.sizes import amount_input, size_key
from sessions_app.core.states import Reason, Status
from sessions_app.dotfiles import delivery as dotfiles_delivery
from sessions_app.metrics.accelerators import device_milli_of
from sessions_app.metrics.history import Window, current_use
from sessions_app.models import CallbackDelivery, ComputeSession, Kernel, SessionType
from sessions_app.presentation.session import launcher_query
from sessions_app.queue import priority as queue_priority
from sessions_app.selectors import Action, may
from sessions_app.termination import oom_kills

TABS = {
    "overview": (gettext_noop("Overview"), "dashboard", Action.VIEW),
    "terminal": (gettext_noop("Terminal"), "terminal-2", Action.OPEN_TERMINAL),
    "log": (gettext_noop("Log"), "file-text", Action.READ_LOGS),
    "charts": (gettext_noop("Charts"), "chart-area-line", Action.VIEW),
    "folders": (gettext_noop("Folders"), "folder", Action.VIEW),
    "history": (gettext_noop("History"), "history", Action.VIEW),
}
WINDOWS = {
    Window.QUARTER: gettext_noop("15 minutes"),
    Window.HOUR: gettext_noop("1 hour"),
    Window.ALL: gettext_noop("All"),
}

EVENT_LABELS = {
    CallbackEvent.STARTED: gettext_noop("It runs"),
    CallbackEvent.RETRIED: gettext_noop("It is tried again"),
    CallbackEvent.ENDED: gettext_noop("It has ended"),
}
FAULT_MESSAGES = {
    Fault.NONE: gettext_noop("Not tried yet."),
    Fault.NAME: gettext_noop("There is no machine of that name."),
    Fault.FORBIDDEN: gettext_noop("Its machine is not in the open internet, and is not called."),
    Fault.CONNECT: gettext_noop("Nothing took the connection, or it broke."),
    Fault.TLS: gettext_noop("Its certificate is not valid, or it speaks no TLS."),
    Fault.TIMEOUT: gettext_noop("It did not answer in time."),
    Fault.PROTOCOL: gettext_noop("Its answer was no HTTP."),
    Fault.CLOSED: gettext_noop("Its owner's account is closed."),
}
EXPECTED_ENDS = frozenset(
    {
        Reason.USER_REQUESTED,
        Reason.ADMIN_REQUESTED,
        Reason.COMMAND_FINISHED,
        Reason.LIFETIME_OVER,
        Reason.UNUSED,
        Reason.UNDERUSED,
        Reason.PREEMPTED,
    }
)
EXPLAINED_BY_LOG = frozenset({Reason.COMMAND_FAILED, Reason.CONTAINER_EXITED})
FIXED_BY_OTHER_IMAGE = frozenset({Reason.IMAGE_MISSING, Reason.IMAGE_PULL_FAILED})


def chosen_tab(asked: str) -> str:
    return asked if asked in TABS else "overview"


def tabs(actor: Actor, session: ComputeSession, chosen: str) -> list[dict[str, Any]]:
    """Return the tabs that the actor may open, for includes/tabs.html."""
    return [
        {"label": _(label), "icon": icon, "url": f"?tab={name}", "is_active": name == chosen}
        for name, (label, icon, action) in TABS.items()
        if may(actor, session, action)
    ]


def callback(actor: Actor, session: ComputeSession) -> dict[str, Any] | None:
    """Return {"url" (for its owner), "rows": [{"delivery", "words", "text"}]} about the session's
    webhook; None if it has none. One query.
    """
    if not hasattr(session, "callback"):
        return None
    rows = [
        {
            "delivery": each,
            "words": _(EVENT_LABELS[CallbackEvent(each.news)]),
            "text": _delivery_message(each),
        }
        for each in list_deliveries(session)
    ]
    return {"url": find_callback_url(actor, session), "rows": rows}


def _delivery_message(delivery: CallbackDelivery) -> str:
    """Return the answer of the receiver, or the reason why there was none."""
    if delivery.answer is not None:
        return _("Answered {status}.").format(status=delivery.answer)
    return _(FAULT_MESSAGES[Fault(delivery.fault)])


def windows(chosen: Window, kernel: Kernel) -> list[dict[str, Any]]:
    """Return links for the time span of a container's charts: [{"label", "url", "is_active"}]."""
    query = "tab=charts" if kernel.is_main else f"tab=charts&kernel={kernel.name}"
    return [
        {"label": _(label), "url": f"?{query}&window={window}", "is_active": window == chosen}
        for window, label in WINDOWS.items()
    ]


def chosen_window(asked: str) -> Window:
    return Window(asked) if asked in set(Window) else Window.QUARTER


def upcoming_apps(actor: Actor, session: ComputeSession) -> list[AppHint]:
    """Return apps that will open once the session runs; their pages wait for it."""
    is_coming = session.is_live and session.status not in (Status.RUNNING, Status.TERMINATING)
    if not is_coming or session.type != SessionType.INTERACTIVE or not may(actor, session, Action.OPEN_APP):
        return []
    return list(session.image.app_hints)


def outcome(actor: Actor, session: ComputeSession) -> dict[str, Any] | None:
    """Return {"title", "text", "remedies": [{"label", "url", "icon"}]} if the session ended
    unexpectedly, or runs with an out-of-memory kill or a failed home set-up (owner only); else
    None. The title of an ended session is "": its sentence is complete.
    """
    is_own = session.owner_id == actor.user_id
    if session.is_live and session.status != Status.TERMINATING:
        kernel = oom_kills.killed_kernel(session)
        if kernel is None:
            return _setup_failure(session) if is_own else None
        return {
            "title": _("A program ran out of memory."),
            "text": str(oom_kills.memory_kill_message(session, kernel)),
            "remedies": _memory_remedy(session) if is_own else [],
        }
    reason = _end_reason(session)
    if reason is None or reason in EXPECTED_ENDS:
        return None
    return {
        "title": "",
        "text": str(session.status_message),
        "remedies": remedies(session, reason, is_own=is_own),
    }


def _setup_failure(session: ComputeSession) -> dict[str, Any] | None:
    """Return a warning if the owner's dotfiles or start-up script failed in this session, or None."""
    setup = dotfiles_delivery.find_setup(session)
    sentences = dotfiles_delivery.failure_sentences(setup) if setup and session.is_running else []
    if not sentences:
        return None
    links = [{"label": _("Read the log"), "url": "?tab=log", "icon": "file-text"}]
    links.append({"label": _("Change them"), "url": reverse("dotfiles"), "icon": "settings"})
    return {
        "title": _("Dotfiles or start-up script did not go well."),
        "text": paragraph(sentences),
        "remedies": links,
    }


def remedies(session: ComputeSession, reason: Reason, *, is_own: bool) -> list[dict[str, str]]:
    """Return links to remedies for this end; only the owner gets links to start again."""
    found = []
    if reason in EXPLAINED_BY_LOG:
        found.append({"label": _("Read the end of the log"), "url": "?tab=log", "icon": "file-text"})
    if not is_own:
        return found
    if reason is Reason.OUT_OF_MEMORY:
        found += _memory_remedy(session)
    if reason is Reason.COMMAND_TIMED_OUT and session.timeout_s:
        longer = 2 * session.timeout_s
        label = _("Start again with {amount}").format(amount=format_duration(longer))
        found += _start_again_link(session, label, {"timeout_s": str(longer)})
    if reason in FIXED_BY_OTHER_IMAGE:
        found += _start_again_link(session, _("Start again with another image"), {"image": ""})
    if reason is Reason.FOLDER_UNAVAILABLE:
        found += _start_again_link(session, _("Start again without that folder"), {})
    return found


def priority(actor: Actor, session: ComputeSession) -> dict[str, Any]:
    """Return the priority, its last change, and whether the actor may change it. At most two
    queries while the session waits.
    """
    is_waiting = session.status == Status.PENDING and session.stops_at is None
    change = queue_priority.last_priority_change(session) if is_waiting or session.priority else None
    governed_id = queue_priority.governed_domain_id(actor) if is_waiting else None
    return {
        "number": session.priority,
        "change": change,
        "can_change": is_waiting and queue_priority.may_prioritize(actor, session, governed_id),
    }


def usage_meters(kernel: Kernel) -> dict[str, Any]:
    """Return present use and limits of a container for meters; {} if there are no metrics. One query."""
    use = current_use(kernel)
    if not use:
        return {}
    limits = {"cpu_limit": kernel.slots[CPU], "mem_limit": kernel.slots[MEM]}
    return {**use, **limits, "has_devices": device_milli_of(kernel.slots) > 0}


def _end_reason(session: ComputeSession) -> Reason | None:
    known = session.outcome_reason or session.status_reason
    return Reason(known) if known in set(Reason) else None


def _memory_remedy(session: ComputeSession) -> list[dict[str, str]]:
    twice = 2 * session.slots[MEM]
    cpu, mem = amount_input(CPU, session.slots[CPU]), amount_input(MEM, twice)
    changes = {"mem": mem, "size": size_key(cpu, mem)}
    return _start_again_link(
        session, _("Start again with {amount}").format(amount=format_bytes(twice)), changes
    )


def _start_again_link(
    session: ComputeSession, label: str, changes: Mapping[str, str]
) -> list[dict[str, str]]:
    url = f"{reverse('session-new')}?{launcher_query(session, changes)}"
    return [{"label": label, "url": url, "icon": "refresh"}]
