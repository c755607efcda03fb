"""Django admin site for superadmins, behind the portal's own rate-limited sign-in."""

from typing import Any, cast

from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy

from accounts.models import User
from accounts.sign_in.audit_events import SET_PASSWORD, handle_new_password
from common.audit import audit_log
from common.audit.admin import AuditedAdmin, ReadOnlyAdmin
from common.models import AuditEntry
from common.rest.actor import actor_of
from portal.models import Announcement

admin.site.site_header = admin.site.site_title = "Berth"
admin.site.index_title = gettext_lazy("Administration")
admin.site.final_catch_all_view = False  # it would redirect forms without a trailing slash
_change_password = admin.site.password_change


def change_own_password(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Serve Django admin's password page and record the change in the audit log."""
    response = _change_password(request, extra_context)
    if request.method == "POST" and response.status_code == 302:
        handle_new_password(cast("User", request.user), request)
        audit_log.record(actor=actor_of(request), action=SET_PASSWORD, target=cast("User", request.user))
    return response


admin.site.password_change = change_own_password  # type: ignore[method-assign, assignment]
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
# E-mail addresses are stored in the account itself.
admin.site.unregister(EmailAddress)
# Second factors are changed by their users, or reset by a service.
admin.site.unregister(Authenticator)
for model in (SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(model)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Read-only view of the audit log."""

    list_display = ("recorded_at", "actor_label", "action", "target_label", "outcome", "ip")
    list_filter = ("action", "outcome", "actor_kind")
    search_fields = ("actor_label", "target_label", "target_id", "request_id")
    date_hierarchy = "recorded_at"


@admin.register(Announcement)
class AnnouncementAdmin(AuditedAdmin):
    """Announcements at the top of every page, with start and end."""

    list_display = ("text", "tone", "starts_at", "ends_at", "is_dismissible")
    list_filter = ("tone",)
    search_fields = ("text",)
