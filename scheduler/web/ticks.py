"""Pages about decisions of the scheduler: recent ticks of a resource group, and one explained, for
superadmins and monitors; past reasons to wait of a session.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from accounts.web.page_access import require_global_overseer
from agents.selectors import access_group, access_visible_group, visible_resource_groups
from common import clock
from common.pages.htmx import is_fragment, render_page_or_fragment
from common.rest.actor import actor_of
from common.values.durations import format_duration
from scheduler.history.replay import past_wait, pending_periods, replay
from scheduler.history.selectors import MAX_SHOWN, explain, preemptions_in, tick_record, tick_records
from scheduler.history.wait_times import WaitTimes, read_wait_times
from scheduler.models import KeptTick
from sessions_app.core.queue_options import check_start_at, to_zoned_instant
from sessions_app.queue.listing import OWN_LIMITS, PUBLIC_REASONS
from sessions_app.selectors import Action, access_session

TICKS_PER_PAGE = 20
MOST_EXACT_S = 10  # longer times are shown in whole seconds


@require_GET
@login_required
def scheduler(request: HttpRequest) -> HttpResponse:
    """Redirect to the page of the default group. Raises NotFound if there is none."""
    return redirect("resource-group-scheduler", access_visible_group(require_global_overseer(request)).pk)


@require_GET
@login_required
def tick_list(request: HttpRequest, group_id: int) -> HttpResponse:
    actor = require_global_overseer(request)
    group = access_group(actor, group_id)
    page = Paginator(tick_records(group), TICKS_PER_PAGE).get_page(request.GET.get("page"))
    rows = [{"tick": tick, "took": took_words(tick), "reasons": reasons_of(tick.reasons)} for tick in page]
    context: dict[str, Any] = {
        "group": group,
        "page": page,
        "rows": rows,
        "waits": wait_words(read_wait_times(group, clock.now())),
        "preemptions": preemptions_in(group)[:MAX_SHOWN],
    }
    if not is_fragment(request):
        context["groups"] = list(visible_resource_groups(actor).order_by("-is_default", "name"))
    return render_page_or_fragment(request, "scheduler/ticks.html", "scheduler/_ticks.html", context)


@require_GET
@login_required
def tick_page(request: HttpRequest, group_id: int, tick_id: int) -> HttpResponse:
    group = access_group(require_global_overseer(request), group_id)
    tick = tick_record(group, tick_id)
    seen = replay(tick)
    context: dict[str, Any] = {
        "group": group,
        "tick": tick,
        "took": took_words(tick),
        "reasons": reasons_of(tick.reasons),
        "explained": explain(tick, seen),
        "seen": seen,
    }
    return render(request, "scheduler/tick.html", context)


@require_GET
@login_required
def why_it_waited(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the reasons; ?at= an instant, in ?time_zone= if it names none, shows the last tick
    before it, replayed.
    """
    session = access_session(actor_of(request), session_id, Action.VIEW)
    stays = pending_periods(session)
    context: dict[str, Any] = {"session": session, "stays": stays[::-1], "typed": request.GET.get("at", "")}
    try:
        at = check_start_at(to_zoned_instant(request.GET.get("at", ""), request.GET.get("time_zone", "")))
    except ValueError as error:
        return render(request, "scheduler/why.html", {**context, "problem": str(error)}, status=422)
    if at is not None:
        context |= {"at": at, "wait": past_wait(session, at, stays)}
    return render(request, "scheduler/why.html", context)


def took_words(tick: KeptTick) -> dict[str, str]:
    """Return the durations of the phases and the total, as text."""
    parts = {"read": tick.read_us, "decide": tick.decide_us, "commit": tick.commit_us, "all": tick.took_us}
    return {name: milliseconds(us) for name, us in parts.items()}


def wait_words(waits: WaitTimes) -> dict[str, Any]:
    """Return {"started": count} and, if any, "half", "most", "longest" as durations."""
    lengths = {"half": waits.half_s, "most": waits.nine_of_ten_s, "longest": waits.longest_s}
    return {"started": waits.started} | {
        name: milliseconds(round(seconds * 1e6)) if seconds < MOST_EXACT_S else format_duration(seconds)
        for name, seconds in lengths.items()
        if seconds is not None
    }


def milliseconds(us: int) -> str:
    """Format microseconds: "0.4 ms", "12 ms", "1.3 s"."""
    if us >= 1_000_000:
        return _("{number} s").format(number=f"{us / 1_000_000:.1f}")
    return _("{number} ms").format(number=f"{us / 1000:.1f}" if us < 10_000 else us // 1000)


def reasons_of(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return {"code", "words", "count"} per reason, most frequent first."""
    most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"code": code, "words": _(PUBLIC_REASONS.get(code, OWN_LIMITS)), "count": count}
        for code, count in most_first
    ]
