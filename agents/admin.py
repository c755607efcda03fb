"""Machines in Django admin: groups can be edited; agents only moved between groups, since the rest is
observed."""

from django.contrib import admin
from django.http import HttpRequest

from agents.models import Agent, AgentSlot, ResourceGroup
from common.audited_admin import AuditedAdmin


@admin.register(ResourceGroup)
class ResourceGroupAdmin(AuditedAdmin):
    list_display = ("name", "is_default", "is_active", "strategy", "scheduler")
    readonly_fields = ("epoch", "created_at")


class AgentSlotInline(admin.TabularInline):
    model = AgentSlot
    fields = readonly_fields = ("slot_name", "capacity", "occupied")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        return False


@admin.register(Agent)
class AgentAdmin(AuditedAdmin):
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
    readonly_fields = (
        "name",
        "address",
        "tls_directory",
        "state",
        "state_changed_at",
        "architecture",
        "engine_id",
        "engine_version",
        "heartbeat_at",
        "last_error",
        "data",
        "created_at",
    )
    inlines = (AgentSlotInline,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        return False
