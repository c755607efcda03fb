"""Read-only Django admin of agents and resource groups."""

from django.contrib import admin
from django.http import HttpRequest

from agents.models import Agent, AgentSlot, ResourceGroup
from common.audit.admin import ReadOnlyAdmin


@admin.register(ResourceGroup)
class ResourceGroupAdmin(ReadOnlyAdmin):
    list_display = ("name", "is_default", "is_active", "strategy", "scheduler", "deleted_at")


class AgentSlotInline(admin.TabularInline):
    model = AgentSlot
    fields = readonly_fields = ("slot_name", "capacity", "occupied")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        return False


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
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
