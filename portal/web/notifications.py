"""Pages of notifications: list, bell, marking as read, dismissing announcements."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from common.pages.htmx import local_url, render_page_or_fragment
from common.rest.actor import actor_of
from portal.models import Notification
from portal.notifications import selectors, service
from portal.notifications.catalogue import SENTENCES, Code

PER_PAGE = 25
DISMISSED = "dismissed_announcements"


@require_GET
@login_required
def notification_list(request: HttpRequest) -> HttpResponse:
    """Show all or unread notifications, as a page or as the fragment that also fills the drawer."""
    actor = actor_of(request)
    is_unread = request.GET.get("show") == "unread"
    unread, everything = selectors.unread_notifications(actor), selectors.own_notifications(actor)
    page = Paginator(unread if is_unread else everything, PER_PAGE).get_page(request.GET.get("page"))
    unread_count = unread.count()
    context = {
        "page": page,
        "rows": [presented(notification) for notification in page],
        "unread_count": unread_count,
        "chips": [
            {"label": _("All"), "url": reverse("notifications"), "is_active": not is_unread},
            {"label": _("Unread"), "url": "?show=unread", "count": unread_count, "is_active": is_unread},
        ],
    }
    return render_page_or_fragment(
        request, "portal/notifications.html", "portal/_notifications.html", context
    )


@require_GET
@login_required
def bell(request: HttpRequest) -> HttpResponse:
    """Return the bell of the top bar; requested again when notifications change."""
    return render(request, "includes/notifications_bell.html")


@require_POST
@login_required
def read_notification(request: HttpRequest, notification_id: int) -> HttpResponse:
    service.read_notification(actor=actor_of(request), notification_id=notification_id)
    return redirect(local_url(request, request.POST.get("back") or reverse("notifications")))


@require_POST
@login_required
def read_all(request: HttpRequest) -> HttpResponse:
    service.read_all_notifications(actor=actor_of(request))
    return redirect("notifications")


@require_POST
@login_required
def dismiss_announcement(request: HttpRequest, announcement_id: int) -> HttpResponse:
    """Hide an announcement for this login; no effect if it is absent or not dismissible."""
    dismissed = {*request.session.get(DISMISSED, []), announcement_id}
    still_there = {one.pk for one in selectors.current_announcements() if one.is_dismissible}
    request.session[DISMISSED] = sorted(dismissed & still_there)
    return redirect(local_url(request, request.POST.get("back", "")))


def presented(notification: Notification) -> dict[str, Any]:
    """Return a notification for the template."""
    sentence = SENTENCES[Code(notification.code)]
    return {
        "id": notification.pk,
        "text": selectors.notification_text(notification),
        "more": _(sentence.more),
        "icon": sentence.icon,
        "tone": sentence.tone,
        "url": selectors.notification_url(notification),
        "created_at": notification.created_at,
        "is_read": notification.read_at is not None,
    }
