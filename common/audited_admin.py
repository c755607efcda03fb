"""Django admin whose changes stand in the access log."""

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from common import audit
from common.api import actor_of


class AuditedAdmin(admin.ModelAdmin):
    """Each change is recorded as `<app>.<create|update|delete>_<model>`, in the transaction of the change, with the fields
    before and after."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        given = {name: form.cleaned_data.get(name) for name in form.changed_data}
        _record(request, "update" if change else "create", obj, audit.changed(form.initial, given))

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        _record(request, "delete", obj, {})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for obj in queryset:
            self.delete_model(request, obj)


def _record(request: HttpRequest, verb: str, obj: Model, values: dict[str, Any]) -> None:
    action = f"{obj._meta.app_label}.{verb}_{obj._meta.model_name}"
    audit.record(actor=actor_of(request), action=action, target=obj, changes=values)
