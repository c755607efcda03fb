"""Read-only Django admin of agents and resource groups."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from agents.models import Agent, AgentSlot, ResourceGroup
from common.audit.admin import AuditedAdmin


class OnlyLooked(AuditedAdmin):
    """Read-only admin, for models that are changed by services on pages of their own."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(ResourceGroup)
class ResourceGroupAdmin(OnlyLooked):
    list_display = ("name", "is_default", "is_active", "strategy", "scheduler", "deleted_at")


class AgentSlotInline(admin.TabularInline):
    model = AgentSlot
    fields = readonly_fields = ("slot_name", "capacity", "occupied")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        return False


@admin.register(Agent)
class AgentAdmin(OnlyLooked):
    list_display = (
        "name",
        "resource_group",
        "state",
        "address",
        "engine_version",
        "heartbeat_at",
        "last_error",
    )
    list_filter = ("state", "resource_group")
    search_fields = ("name", "address")
    inlines = (AgentSlotInline,)
