"""The page of one's preferences: what one is told, language and theme."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from common.api import actor_of
from portal import services
from portal.selectors import muted_kinds
from portal.sentences import KIND_TITLES, Kind


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def preferences_page(request: HttpRequest) -> HttpResponse:
    """POST says what one wants to be told; language and theme have switches of their own."""
    actor = actor_of(request)
    if request.method == "POST":
        wanted = request.POST.getlist("kind")
        services.choose_notifications(actor=actor, muted=[kind for kind in Kind if kind not in wanted])
        messages.success(request, _("Your notifications are changed."))
        return redirect("preferences")
    muted = muted_kinds(actor.user_id or 0)
    kinds = [(kind.value, _(KIND_TITLES[kind]), kind not in muted) for kind in Kind]
    return render(request, "portal/preferences.html", {"kinds": kinds})
