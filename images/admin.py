from typing import ClassVar

from django.contrib import admin

from common.audited_admin import AuditedAdmin
from common.languages import gettext_noop
from images.models import ContainerImage, Registry


@admin.register(Registry)
class RegistryAdmin(AuditedAdmin):
    list_display = ("name", "kind", "url", "is_enabled")
    list_filter = ("kind", "is_enabled")
    search_fields = ("name", "url")
    instead_of_deleting = gettext_noop(
        "Its images refer to it. Disable it instead: then nobody starts any of them."
    )


@admin.register(ContainerImage)
class ContainerImageAdmin(AuditedAdmin):
    """Titles and what is enabled are edited here; what was read from the image is shown."""

    list_display = ("reference", "title", "architecture", "size_bytes", "is_enabled")
    list_filter = ("is_enabled", "architecture", "registry")
    search_fields = ("reference", "title")
    instead_of_deleting = gettext_noop(
        "The history of sessions says which image they ran. Disable it instead: then nobody starts it."
    )
    readonly_fields: ClassVar = (
        "reference", "apps", "min_slots", "architecture", "digest", "size_bytes", "built_at", "created_at",
    )  # fmt: skip

    def has_add_permission(self, request: object) -> bool:
        return False
