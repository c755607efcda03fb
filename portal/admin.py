"""The site of Django admin: for superadmins, behind the portal's own sign-in, which is throttled."""

from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from common.models import AuditEntry
from portal.models import Announcement

admin.site.site_header = admin.site.site_title = "Berth"
admin.site.index_title = gettext_lazy("Administration")
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
# The e-mail address of a person is in the account itself.
admin.site.unregister(EmailAddress)


@admin.register(AuditEntry)
class AuditEntryAdmin(admin.ModelAdmin):
    """The access log. Rows are only ever added, and not by hand."""

    list_display = ("recorded_at", "actor_label", "action", "target_label", "outcome", "ip")
    list_filter = ("action", "outcome", "actor_kind")
    search_fields = ("actor_label", "target_label", "target_id", "request_id")
    date_hierarchy = "recorded_at"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Announcement)
class AnnouncementAdmin(admin.ModelAdmin):
    """What every page shows at its top, from when until when."""

    list_display = ("text", "tone", "starts_at", "ends_at", "is_dismissible")
    list_filter = ("tone",)
    search_fields = ("text",)
