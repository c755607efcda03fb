"""Django admin of resource policies and their assignment; changes are recorded in the audit log."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.admission_gate import precede_admissions
from accounts.core.allow_lists import AllowList
from accounts.core.utilization import MIN_UTILIZATION_COLUMNS
from accounts.forms.limit_fields import BROWSERS, ENTRIES_EXAMPLE, EXAMPLE, PRIORITY, EntriesField, SlotsField
from accounts.models import ALLOW_COLUMNS, ResourcePolicy
from accounts.policies.service import LimitedObject, assign_policy
from common.audit import audit_log
from common.audit.admin import ExplainedDeletionAdmin
from common.i18n import gettext_noop
from common.rest.actor import actor_of

MIN_UTILIZATION_HELP = gettext_lazy(
    "Percent of what is allocated to a session; below any of these, or all, it ends after the grace time, batch sessions only"
    " where their resource group ends them for low utilization. Empty: as the resource group says."
)


class PolicyForm(forms.ModelForm):
    max_slots = SlotsField(required=False, help_text=EXAMPLE)
    max_pending_slots = SlotsField(required=False, help_text=EXAMPLE)

    allowed_registries = EntriesField(AllowList.REGISTRIES, help_text=ENTRIES_EXAMPLE)
    allowed_images = EntriesField(AllowList.IMAGES, help_text=ENTRIES_EXAMPLE)
    allowed_storage_hosts = EntriesField(AllowList.STORAGE_HOSTS, help_text=ENTRIES_EXAMPLE)

    class Meta:
        model = ResourcePolicy
        fields = (
            "name", "is_default", "max_slots", "max_sessions", "max_pending_sessions", "max_pending_slots",
            "max_containers", "max_lifetime_s", "max_idle_s", *MIN_UTILIZATION_COLUMNS, "use_rule", "use_window_s", "use_grace_s",
            "max_extensions", "max_extension_s", "max_priority", "max_folders", "max_folder_bytes", "max_keypairs", "max_requests", "max_browsers",
            *ALLOW_COLUMNS.values(),
        )  # fmt: skip
        help_texts = {  # noqa: RUF012  the form that Django wants
            "max_sessions": gettext_lazy(
                "Live ones, waiting or not. An empty field limits nothing, here and below."
            ),
            "max_lifetime_s": gettext_lazy(
                "Seconds from its start; of sessions that are asked for from now on."
            ),
            "max_idle_s": gettext_lazy(
                "Seconds without user activity after which an interactive session ends."
            ),
            **dict.fromkeys(MIN_UTILIZATION_COLUMNS, MIN_UTILIZATION_HELP),
            "use_rule": gettext_lazy("When utilization is low, of the resources that have a minimum here."),
            "use_window_s": gettext_lazy(
                "Seconds over which use is averaged. Empty: as the resource group says."
            ),
            "use_grace_s": gettext_lazy(
                "Seconds from low utilization to the end. Empty: as the resource group says."
            ),
            "max_extensions": gettext_lazy("How often a session may be extended; 0 forbids it."),
            "max_extension_s": gettext_lazy("Seconds, at most, each time."),
            "max_keypairs": gettext_lazy("API tokens; counts for people alone."),
            "max_priority": PRIORITY,
            "max_folder_bytes": gettext_lazy("Bytes of all folders together, as they were measured last."),
            "max_browsers": BROWSERS,
        }


@admin.register(ResourcePolicy)
class PolicyAdmin(ExplainedDeletionAdmin):
    """Shows the scopes that a policy limits. A policy in use cannot be deleted. An edit does not
    end running sessions, except by its rules on when sessions end.
    """

    form = PolicyForm
    deletion_advice = gettext_noop("Give these another policy first.")
    readonly_fields = ("limits_whom",)
    list_display = ("name", "is_default", "max_sessions", "limits_whom")
    search_fields = ("name",)

    def get_fields(self, request: HttpRequest, obj: ResourcePolicy | None = None) -> tuple[str, ...]:
        return ("limits_whom", *PolicyForm.Meta.fields)

    @admin.display(description=gettext_lazy("Applies to"))
    def limits_whom(self, policy: ResourcePolicy) -> str:
        if policy._state.adding:
            return "–"
        return _("{domains} domains, {projects} projects, {users} users, {tokens} tokens").format(
            domains=policy.domains.count(),
            projects=policy.projects.count(),
            users=policy.users.count(),
            tokens=policy.keypairs.count(),
        )

    def save_model(self, request: HttpRequest, obj: ResourcePolicy, form: Any, change: bool) -> None:
        precede_admissions()
        super().save_model(request, obj, form, change)
        values = {name: [form.initial.get(name), form.cleaned_data[name]] for name in form.changed_data}
        action = f"accounts.{'update' if change else 'create'}_policy"
        audit_log.record(actor=actor_of(request), action=action, target=obj, changes=values)

    def delete_model(self, request: HttpRequest, obj: ResourcePolicy) -> None:
        audit_log.record(actor=actor_of(request), action="accounts.delete_policy", target=obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for policy in queryset:
            self.delete_model(request, policy)


class LimitedAdmin(admin.ModelAdmin):
    """Base for objects with a policy. The service assigns it, so that the audit log has both names."""

    def save_model(self, request: HttpRequest, obj: LimitedObject, form: Any, change: bool) -> None:
        precede_admissions()
        policy = obj.policy
        obj.policy_id = form.initial.get("policy") if change else None
        super().save_model(request, obj, form, change)
        if "policy" in form.fields:
            assign_policy(actor=actor_of(request), target=obj, policy=policy)
