"""Stop many sessions at once from the list, with one undo for all."""

from collections.abc import Callable, Collection
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from common.actors import Actor
from common.pages.bulk_actions import Outcome, chosen_ids, done_count, run_bulk_action
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from sessions_app.selectors import visible_sessions
from sessions_app.termination.delayed_stop import cancel_stop, schedule_stop


@require_POST
@login_required
def stop_many(request: HttpRequest) -> HttpResponse:
    """Schedule a stop of the selected sessions in ten seconds, with undo. If any is refused, show a
    result for each.
    """
    actor = actor_of(request)
    ids = chosen_ids(request.POST, "session")
    if not ids:
        messages.info(request, _("Choose the sessions first: tick them in the list."))
        return redirect(_list_url(request))
    stopping: list[UUID] = []

    def stop(session_id: UUID) -> str:
        session = schedule_stop(actor=actor, session_id=session_id)
        if session.stops_at is None or not session.is_live:
            return _("Had ended before.")
        stopping.append(session_id)
        return _("It will be stopped in a moment.")

    outcomes = _run_for_each(request, actor, ids, stop)
    if stopping:
        sentence = ngettext(
            "{count} session is being stopped.", "{count} sessions are being stopped.", len(stopping)
        )
        way_back: dict[str, str | list[str]] = {
            "session": [str(each) for each in stopping],
            "back": request.POST.get("back", ""),
        }
        offer_undo(request, sentence.format(count=len(stopping)), reverse("session-keep-many"), way_back)
    return _respond(request, outcomes, is_worth_telling=len(stopping) < len(ids))


@require_POST
@login_required
def keep_many(request: HttpRequest) -> HttpResponse:
    """Cancel the scheduled stops of these sessions. If any is too late, show a result for each."""
    actor = actor_of(request)
    ids = chosen_ids(request.POST, "session")

    def keep(session_id: UUID) -> str:
        session = cancel_stop(actor=actor, session_id=session_id)
        return _("“{session}” goes on.").format(session=session.name)

    outcomes = _run_for_each(request, actor, ids, keep)
    done = done_count(outcomes)
    if done == len(ids):
        sentence = ngettext("{count} session goes on.", "{count} sessions go on.", done)
        messages.success(request, sentence.format(count=done))
    return _respond(request, outcomes, is_worth_telling=done < len(ids))


def _run_for_each(
    request: HttpRequest, actor: Actor, ids: Collection[UUID], act: Callable[[UUID], str]
) -> list[Outcome]:
    names = dict(visible_sessions(actor).filter(pk__in=ids).values_list("pk", "name"))
    return run_bulk_action(
        request,
        ids,
        act,
        object_name=lambda pk: names.get(pk, str(pk)),
        object_url=lambda pk: reverse("session-detail", args=[pk]) if pk in names else "",
    )


def _respond(request: HttpRequest, outcomes: list[Outcome], *, is_worth_telling: bool) -> HttpResponse:
    back = _list_url(request)
    if not is_worth_telling:
        return redirect(back)
    context = {"outcomes": outcomes, "done_count": done_count(outcomes), "back": back}
    return render(request, "sessions_app/many_done.html", context)


def _list_url(request: HttpRequest) -> str:
    """Return the URL of the session list with its former filters."""
    return f"{reverse('session-list')}?{request.POST.get('back', '')}"
