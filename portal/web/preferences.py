"""Page of a user's preferences: notifications, mail, language and theme."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.logins.mails import mail_obstacle
from common.errors import InvalidInput
from common.rest.actor import actor_of
from portal.notifications import service
from portal.notifications.catalogue import KIND_TITLES, MUTABLE, UNMUTABLE, Kind
from portal.notifications.selectors import notification_choice


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def preferences_page(request: HttpRequest) -> HttpResponse:
    """Show the page; POST sets shown and mailed notifications."""
    user: Any = request.user
    no_mail = mail_obstacle(user)
    if request.method == "POST":
        return _choose(request, can_mail=not no_mail)
    choice = notification_choice(user.pk)
    kinds = [
        {
            "code": kind.value,
            "title": _(KIND_TITLES[kind]),
            "is_always_told": kind in UNMUTABLE,
            "is_told": kind in UNMUTABLE or kind not in choice.muted,
            "is_mailed": kind in choice.mailed,
        }
        for kind in Kind
    ]
    return render(request, "portal/preferences.html", {"kinds": kinds, "no_mail": no_mail})


def _choose(request: HttpRequest, *, can_mail: bool) -> HttpResponse:
    """Store the choice; mailed kinds stay as they are if mail cannot be chosen."""
    told, mailed = request.POST.getlist("kind"), request.POST.getlist("mail")
    try:
        service.choose_notifications(
            actor=actor_of(request),
            muted=[kind for kind in MUTABLE if kind not in told],
            mailed=mailed if can_mail else None,
        )
    except InvalidInput as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(request, _("Your notifications are changed."))
    return redirect("preferences")
