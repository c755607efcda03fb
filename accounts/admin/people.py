"""Django admin of users, domains, projects and keypairs, for superadmins only.

Writes go through the services, because permissions follow roles. Only tokens are deleted here;
users, projects and domains are closed, so that their history stays readable.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import Group
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy

from accounts.admin.policies import LimitedAdmin
from accounts.core.roles import PROJECT_ROLE_TITLES, ROLE_TITLES, ProjectRole, Role
from accounts.models import Domain, KeyPair, Membership, Project, User
from accounts.policies.service import assign_policy
from accounts.sign_in.audit_events import SET_PASSWORD, handle_new_password
from accounts.sign_in.onboarding import onboard_user
from accounts.tenancy import offboarding, service
from common.audit import audit_log
from common.audit.admin import AuditedAdmin
from common.rest.actor import actor_of

# Roles decide on permissions; Django's groups would contradict them.
admin.site.unregister(Group)

ROLE_CHOICES = [(role.value, gettext_lazy(title)) for role, title in ROLE_TITLES.items()]
PROJECT_ROLE_CHOICES = [(role.value, gettext_lazy(title)) for role, title in PROJECT_ROLE_TITLES.items()]


class PersonCreationForm(BaseUserCreationForm):
    role = forms.ChoiceField(choices=ROLE_CHOICES, initial=Role.USER.value)

    class Meta:
        model = User
        fields = ("email", "name", "domain", "role")


class PersonChangeForm(forms.ModelForm):
    role = forms.ChoiceField(choices=ROLE_CHOICES)

    class Meta:
        model = User
        fields = ("email", "name", "domain", "role", "is_active", "policy")


class MembershipForm(forms.ModelForm):
    role = forms.ChoiceField(choices=PROJECT_ROLE_CHOICES, initial=ProjectRole.MEMBER.value)

    class Meta:
        model = Membership
        fields = ("user", "role")


class UndeletableAdmin(AuditedAdmin):
    """Base for objects that are closed instead of deleted."""

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(UserAdmin):
    form = PersonChangeForm
    add_form = PersonCreationForm
    add_form_template = None
    fieldsets = (
        (None, {"fields": ("email", "name", "domain", "role", "is_active", "policy")}),
        (gettext_lazy("Dates"), {"fields": ("created_at", "last_login")}),
    )
    add_fieldsets = ((None, {"fields": ("email", "name", "domain", "role", "password1", "password2")}),)
    readonly_fields = ("created_at", "last_login")
    list_display = ("email", "name", "domain", "role", "is_active", "last_login")
    list_filter = ("role", "is_active", "domain")
    list_select_related = ("domain",)
    search_fields = ("email", "name")
    ordering = ("email",)
    filter_horizontal = ()

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        actor, role = actor_of(request), Role(obj.role)
        if change:
            service.update_user(
                actor=actor, user_id=obj.pk, email=obj.email, name=obj.name, domain=obj.domain, role=role
            )
            if "is_active" in form.changed_data:
                change_state = offboarding.reopen_user if obj.is_active else offboarding.close_user
                change_state(actor=actor, user_id=obj.pk)
            assign_policy(actor=actor, target=User.objects.get(pk=obj.pk), policy=obj.policy)
            return
        password = form.cleaned_data["password1"]
        person, _no_link = onboard_user(
            actor=actor, email=obj.email, name=obj.name, password=password, domain=obj.domain.name, role=role
        )
        obj.pk, obj._state.adding = person.pk, False

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002
        response = super().user_change_password(request, id, form_url)
        if request.method == "POST" and response.status_code == 302:
            person = User.objects.get(pk=id)
            handle_new_password(person, request if person == request.user else None)
            if person != request.user:
                User.objects.filter(pk=person.pk).update(must_change_password=True)
            audit_log.record(actor=actor_of(request), action=SET_PASSWORD, target=person)
        return response

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


class MembershipInline(admin.TabularInline):
    model = Membership
    form = MembershipForm
    autocomplete_fields = ("user",)
    extra = 0


@admin.register(Project)
class ProjectAdmin(LimitedAdmin, UndeletableAdmin):
    fields = ("domain", "name", "title", "is_active", "policy")
    list_display = ("name", "title", "domain", "is_active")
    list_filter = ("is_active", "domain")
    list_select_related = ("domain",)
    search_fields = ("name", "title")
    inlines = (MembershipInline,)

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> tuple[str, ...]:
        """A project cannot move to another domain: its members, sessions and folders are there."""
        return ("domain",) if obj else ()

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        actor = actor_of(request)
        memberships = formset.save(commit=False)
        for gone in formset.deleted_objects:
            service.remove_member(actor=actor, project=gone.project, user=gone.user)
        for membership in memberships:
            service.add_member(
                actor=actor,
                project=membership.project,
                user=membership.user,
                role=ProjectRole(membership.role),
            )


@admin.register(Domain)
class DomainAdmin(LimitedAdmin, UndeletableAdmin):
    fields = ("name", "title", "is_active", "policy")
    list_display = ("name", "title", "is_active")
    search_fields = ("name", "title")


@admin.register(KeyPair)
class KeyPairAdmin(LimitedAdmin):
    """Lists, limits and revokes tokens; it never creates a token for another user."""

    readonly_fields = ("user", "name", "access_key", "created_at", "expires_at", "last_used_at")
    fields = (*readonly_fields, "policy")
    list_display = ("access_key", "name", "user", "created_at", "expires_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("access_key", "name", "user__email")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def delete_model(self, request: HttpRequest, obj: KeyPair) -> None:
        audit_log.record(actor=actor_of(request), action="accounts.delete_keypair", target=obj)
        obj.delete()

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[KeyPair]) -> None:
        for keypair in queryset:
            self.delete_model(request, keypair)
