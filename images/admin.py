from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest

from accounts.admission_gate import precede_admissions
from common.audit.admin import AuditedAdmin
from common.i18n import gettext_noop
from images.models import ContainerImage, Registry


class InputAdmin(AuditedAdmin):
    """Admin of models that admission of sessions depends on; saving takes the admission gate first."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        precede_admissions()
        super().save_model(request, obj, form, change)


@admin.register(Registry)
class RegistryAdmin(InputAdmin):
    list_display = ("name", "kind", "url", "is_enabled")
    list_filter = ("kind", "is_enabled")
    search_fields = ("name", "url")
    deletion_advice = gettext_noop(
        "Its images refer to it. Disable it instead: then nobody starts any of them."
    )


@admin.register(ContainerImage)
class ContainerImageAdmin(InputAdmin):
    """Admin of images: titles and `is_enabled` are editable, fields read from the image are not."""

    list_display = ("reference", "title", "architecture", "size_bytes", "is_enabled")
    list_filter = ("is_enabled", "architecture", "registry")
    search_fields = ("reference", "title")
    deletion_advice = gettext_noop(
        "The history of sessions says which image they ran. Disable it instead: then nobody starts it."
    )
    readonly_fields: ClassVar = (
        "reference", "apps", "min_slots", "accelerators", "min_cuda", "architecture", "digest", "size_bytes",
        "built_at", "created_at",
    )  # fmt: skip

    def has_add_permission(self, request: object) -> bool:
        return False
