"""Form that changes the priority of a waiting session, on its page and in queues."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from common.errors import Conflict, InvalidInput, LimitExceeded
from common.rest.actor import actor_of
from sessions_app.models import ComputeSession
from sessions_app.queue.priority import change_priority


@require_POST
@login_required
def session_priority(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Change the priority, and return to the page of the form: the session, or with `back` (name of
    a resource group) and `page` its queue.
    """
    try:
        session = change_priority(
            actor=actor_of(request), session_id=session_id, priority=request.POST.get("priority", "")
        )
    except (Conflict, InvalidInput, LimitExceeded) as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    else:
        messages.success(request, _said(session))
    if group := request.POST.get("back", ""):
        return redirect(reverse("queue", query={"group": group, "page": request.POST.get("page", "")}))
    return redirect("session-detail", session_id=session_id)


def _said(session: ComputeSession) -> str:
    sentence = _("“{session}” waits with priority {priority} now.")
    return sentence.format(session=session.name, priority=session.priority)
