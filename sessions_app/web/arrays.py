"""Pages of session arrays: filter of the session list, summary above it, and stopping an array."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from common.actors import Actor
from common.pages.status_styles import status_style
from common.pages.tables import ANY
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from sessions_app.queue.arrays import (
    cancel_array_stop,
    progress_by_array,
    schedule_array_stop,
    visible_arrays,
)
from sessions_app.selectors import Action, may


def array_filter(text: str) -> Q:
    """Return a filter for the sessions of the array with this id; matches none if `text` is no id."""
    array_id = _id_of(text)
    return Q(array_id=array_id) if array_id else Q(pk__in=())


def array_url(array_id: UUID) -> str:
    """Return the URL of the session list filtered to one array, ordered by index, for any project."""
    return f"{reverse('session-list')}?{urlencode({'array': str(array_id), 'project': ANY, 'sort': 'started'}, safe=ANY)}"


def session_url(session: ComputeSession) -> str:
    """Return the page of a new session; for an array the list of its elements."""
    return array_url(session.array_id) if session.array_id else reverse("session-detail", args=[session.pk])


def array_summary(actor: Actor, chosen: Sequence[str]) -> dict[str, Any] | None:
    """Return {"array", "parts": [{"look", "count"}], "held", "succeeded", "can_stop"} for the array
    that the list is filtered to; None without a filter or if the actor may not see it. 2 queries.
    """
    array_id = _id_of(chosen[0]) if chosen else None
    array = visible_arrays(actor).filter(pk=array_id).first() if array_id else None
    if array is None:
        return None
    progress = progress_by_array([array])[array.pk]
    order = [status.value for status in Status]
    statuses = sorted(progress.statuses.items(), key=lambda each: order.index(each[0]))
    return {
        "array": array,
        "parts": [{"look": status_style(status), "count": count} for status, count in statuses],
        "held": progress.held,
        "succeeded": progress.succeeded,
        "can_stop": bool(progress.live) and may(actor, array, Action.TERMINATE),
    }


@require_POST
@login_required
def array_stop(request: HttpRequest, array_id: UUID) -> HttpResponse:
    """Schedule a stop of all elements in ten seconds and offer an undo until then."""
    count = schedule_array_stop(actor=actor_of(request), array_id=array_id)
    if count:
        sentence = ngettext("{count} session is being stopped.", "{count} sessions are being stopped.", count)
        offer_undo(request, sentence.format(count=count), reverse("array-keep", args=[array_id]), {})
    else:
        messages.info(request, _("All of it is being stopped, or has ended."))
    return redirect(array_url(array_id))


@require_POST
@login_required
def array_keep(request: HttpRequest, array_id: UUID) -> HttpResponse:
    """Cancel the scheduled stops that have not begun."""
    count = cancel_array_stop(actor=actor_of(request), array_id=array_id)
    sentence = ngettext("{count} session goes on.", "{count} sessions go on.", count)
    messages.success(request, sentence.format(count=count))
    return redirect(array_url(array_id))


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
