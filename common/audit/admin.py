"""Django admin classes that record changes in the audit log and explain refused deletions."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from common.audit import audit_log
from common.rest.actor import actor_of

SHOWN = 5


class ExplainedDeletionAdmin(admin.ModelAdmin):
    """Model admin that explains why an object cannot be deleted: which objects refer to it, and
    what to do.

    `deletion_advice` is the advice, marked for translation.
    """

    deletion_advice: ClassVar[str] = ""

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        """Return Django's result with at most SHOWN protected objects, the number of further
        ones, and the advice. If objects are protected, missing permissions are left out:
        they concern the same objects.
        """
        deleted, counts, needed, held_by = super().get_deleted_objects(objs, request)
        if held_by:
            more = [_("and {count} more").format(count=len(held_by) - SHOWN)] if len(held_by) > SHOWN else []
            advice = [_(self.deletion_advice)] if self.deletion_advice else []
            return deleted, counts, set(), [*held_by[:SHOWN], *more, *advice]
        return deleted, counts, needed, held_by


class ReadOnlyAdmin(admin.ModelAdmin):
    """Model admin that only shows objects, which services change."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class AuditedAdmin(ExplainedDeletionAdmin):
    """Model admin that records each change as `<app>.<create|update|delete>_<model>`, in the
    transaction of the change, with the fields before and after.
    """

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        given = {name: form.cleaned_data.get(name) for name in form.changed_data}
        _record(request, "update" if change else "create", obj, audit_log.changed(form.initial, given))

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        _record(request, "delete", obj, {})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for obj in queryset:
            self.delete_model(request, obj)


def _record(request: HttpRequest, verb: str, obj: Model, values: dict[str, Any]) -> None:
    action = f"{obj._meta.app_label}.{verb}_{obj._meta.model_name}"
    audit_log.record(actor=actor_of(request), action=action, target=obj, changes=values)
