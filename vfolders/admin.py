"""Django admin of storage hosts and folders, for superadmins.
Folders are created and deleted by services only.
"""

from django.contrib import admin
from django.http import HttpRequest

from common.audit.admin import AuditedAdmin, ReadOnlyAdmin
from common.i18n import gettext_noop
from vfolders.models import StorageHost, VFolder


@admin.register(StorageHost)
class StorageHostAdmin(AuditedAdmin):
    list_display = ("name", "kind", "reach", "is_default", "is_active")
    deletion_advice = gettext_noop(
        "These folders are on it. Delete them first, or make it inactive: then no new ones come. A folder that is being deleted is gone as"
        " soon as the host answers."
    )

    def get_readonly_fields(self, request: HttpRequest, obj: StorageHost | None = None) -> tuple[str, ...]:
        """Policies, sessions and machines know a host by its name, so the name of a saved one stays."""
        return ("name",) if obj else ()


@admin.register(VFolder)
class VFolderAdmin(ReadOnlyAdmin):
    list_display = ("name", "owner", "project", "host", "state", "size_bytes", "measured_at", "created_at")
    list_filter = ("state", "host", "domain")
    search_fields = ("name", "owner__email", "project__name")
    list_select_related = ("owner", "project", "host")
