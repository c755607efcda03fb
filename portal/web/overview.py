"""Figures on the first page of the administration."""

from typing import Any

from django.db.models import Count
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import User
from agents.core.states import AgentState
from agents.models import Agent
from common.pages.status_styles import Tone
from portal.api.health import redis_answers
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession


def overview_facts() -> list[dict[str, Any]]:
    """Return [{"label", "value", "icon", "tone", "url"}]. 3 queries."""
    sessions = _counts(ComputeSession.objects.live())
    agents = dict(Agent.objects.order_by().values_list("state").annotate(Count("pk")))
    connected, lost = agents.get(AgentState.CONNECTED.value, 0), agents.get(AgentState.LOST.value, 0)
    waiting = sessions.get(Status.PENDING.value, 0)
    has_redis = redis_answers()
    return [
        _fact(
            _("Running sessions"),
            sessions.get(Status.RUNNING.value, 0),
            "terminal-2",
            url=reverse("session-list"),
        ),
        _fact(_("Waiting sessions"), waiting, "hourglass", tone=Tone.WARN if waiting else Tone.GOOD),
        _fact(
            _("Agents connected"),
            _("{connected}, {lost} lost").format(connected=connected, lost=lost) if lost else connected,
            "server",
            tone=Tone.BAD if lost else Tone.GOOD,
            url=reverse("agents"),
        ),
        _fact(
            _("People"),
            User.objects.filter(is_active=True).count(),
            "users",
            url=reverse("admin:accounts_user_changelist"),
        ),
        *([] if has_redis else [_fact("Redis", _("does not answer"), "server-off", tone=Tone.BAD)]),
    ]


def _counts(sessions: Any) -> dict[str, int]:
    return dict(sessions.order_by().values_list("status").annotate(Count("pk")))


def _fact(label: str, value: object, icon: str, *, tone: Tone = Tone.GOOD, url: str = "") -> dict[str, Any]:
    return {"label": label, "value": value, "icon": icon, "tone": tone, "url": url}
