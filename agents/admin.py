"""Machines and their groups in Django admin: to be looked at, but for when sessions of a group end."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from agents.models import Agent, AgentSlot, ResourceGroup
from common.audited_admin import AuditedAdmin


class OnlyLooked(AuditedAdmin):
    """What has pages of its own, where it is changed by the rules."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(ResourceGroup)
class ResourceGroupAdmin(OnlyLooked):
    """Who is next, and when its sessions end, are changed here; all else on its page."""

    list_display = ("name", "is_default", "is_active", "strategy", "scheduler", "deleted_at")
    fields = (
        "name", "scheduler", "usage_half_life_s", "max_lifetime_s", "max_idle_s", "min_cpu_percent", "min_mem_percent",
        "min_device_percent", "min_device_mem_percent", "use_rule", "use_window_s", "use_grace_s", "ends_idle_batch", "max_extensions",
        "extension_s",
    )  # fmt: skip
    readonly_fields = ("name",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return admin.ModelAdmin.has_change_permission(self, request, obj)


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
