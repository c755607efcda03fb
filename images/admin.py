from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from accounts.admission_gate import precede_admissions
from common.audit.admin import AuditedAdmin
from common.i18n import gettext_noop
from images.models import ContainerImage, Registry


class InputAdmin(AuditedAdmin):
    """Admin of models that admission of sessions depends on; saving takes the admission gate first."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        precede_admissions()
        super().save_model(request, obj, form, change)


class RegistryForm(forms.ModelForm[Registry]):
    """A registry; its password is written only, and an empty field keeps it."""

    new_password = forms.CharField(
        required=False,
        strip=False,
        max_length=4000,
        label=gettext_lazy("Password or token"),
        help_text=gettext_lazy("Machines sign in with it to pull. Empty: unchanged."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    class Meta:
        model = Registry
        fields = ("name", "kind", "host", "url", "is_enabled", "username")


@admin.register(Registry)
class RegistryAdmin(InputAdmin):
    form = RegistryForm
    list_display = ("name", "kind", "url", "is_enabled")
    list_filter = ("kind", "is_enabled")
    search_fields = ("name", "url")
    deletion_advice = gettext_noop(
        "Its images refer to it. Disable it instead: then nobody starts any of them."
    )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if password := form.cleaned_data.get("new_password"):
            obj.set_password(password)
        super().save_model(request, obj, form, change)


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
