"""Pages of projects and their members."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.roles import ProjectRole
from accounts.models import Project
from accounts.selectors import (
    access_member,
    access_project,
    actions_on_project,
    find_domain,
    find_domain_user,
    overseen_projects,
    oversees_others,
    read_actor_scope,
    sees_everything,
    visible_domains,
)
from accounts.tenancy import archiving, service
from accounts.tenancy.membership_rules import read_rules, rule_failures
from accounts.tenancy.preferences import column_choice
from accounts.web.budgets.budgets import budget_card
from accounts.web.form_errors import errors_as_messages, errors_in_form
from accounts.web.page_access import require_administrator
from accounts.web.people.forms import MemberForm, NamedForm, NewProjectForm
from accounts.web.people.project_rules import rule_sentences
from accounts.web.policies.policies import policy_card
from common.actors import Actor
from common.pages.tables import Column, Filter, Listing, Tab, Table, define_table
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once

SHOWN_FAILURES = 20
TABLE = define_table(
    Table(
        name="projects",
        noun=gettext_noop("projects"),
        sort="name",
        search=lambda text: Q(name__icontains=text) | Q(title__icontains=text),
        search_label=gettext_noop("Search by name"),
        columns=(
            Column("name", gettext_noop("Project"), ("name",), is_fixed=True),
            Column("domain", gettext_noop("Domain"), ("domain__name", "name")),
            Column("members", gettext_noop("Members"), is_number=True),
            Column("created", gettext_noop("Created"), ("created_at",), is_number=True),
        ),
        filters=(Filter("domain", gettext_noop("Domain"), lambda name: Q(domain__name=name)),),
        tabs=(
            Tab("used", gettext_noop("In use"), Q(is_active=True)),
            Tab("archived", gettext_noop("Archived"), Q(is_active=False)),
        ),
    )
)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="projects")
def project_list(request: HttpRequest) -> HttpResponse:
    """List the projects that the actor administers or monitors; POST creates one."""
    actor = require_administrator(request)
    domains = list(visible_domains(actor).values_list("name", "is_active"))
    in_use = [name for name, is_active in domains if is_active]
    form = NewProjectForm(request.POST if request.method == "POST" else None, domains=in_use)
    show = partial(_list_page, request, actor, form, [name for name, _is_active in domains])
    if request.method == "POST" and form.is_valid():
        wanted = dict(form.cleaned_data)
        with errors_in_form(form):
            domain = find_domain(actor, wanted.pop("domain", ""))
            project = service.create_project(actor=actor, domain=domain, **wanted)
            messages.success(
                request, _("The project “{name}” is ready. Add its members.").format(name=project.name)
            )
            return redirect("project", project.pk)
    return show(status=422 if request.method == "POST" else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def project_page(request: HttpRequest, project_id: int) -> HttpResponse:
    """Show the members of a project; POST changes its name and title."""
    actor = actor_of(request)
    if request.method != "POST":
        project = access_project(actor, project_id, Action.VIEW_MEMBERS)
        return _page(request, project, _named_form(project))
    project = access_project(actor, project_id, Action.EDIT)
    form = NamedForm(request.POST)
    if form.is_valid():
        with errors_in_form(form):
            archiving.update_project(actor=actor, project_id=project_id, **form.cleaned_data)
            messages.success(request, _("The project is changed."))
            return redirect("project", project_id)
    return _page(request, project, form, status=422)


@login_required
@require_POST
def add_member(request: HttpRequest, project_id: int) -> HttpResponse:
    """Add a member, or change the role of a member."""
    actor = actor_of(request)
    project = access_project(actor, project_id, Action.MANAGE_MEMBERS)
    form = MemberForm(request.POST)
    if form.is_valid():
        with errors_in_form(form):
            user = find_domain_user(project, form.cleaned_data["email"])
            role = ProjectRole(form.cleaned_data["role"])
            membership = service.add_member(actor=actor, project=project, user=user, role=role)
            sentence = _("{person} is in the project “{name}” now, as: {role}.")
            messages.success(
                request, sentence.format(person=user.email, name=project.name, role=membership.role_title)
            )
            return redirect("project", project_id)
    return _page(request, project, _named_form(project), member_form=form, status=422)


@login_required
@require_POST
def remove_member(request: HttpRequest, project_id: int, user_id: int) -> HttpResponse:
    actor = actor_of(request)
    membership = access_member(actor, project_id, user_id)
    service.remove_member(actor=actor, project=membership.project, user=membership.user)
    messages.success(
        request,
        _("{person} is not in the project “{name}” any more.").format(
            person=membership.user.email, name=membership.project.name
        ),
    )
    if user_id != actor.user_id:
        return redirect("project", project_id)
    return redirect("projects" if oversees_others(actor) else "start")


@login_required
@require_POST
def change_project_state(request: HttpRequest, project_id: int) -> HttpResponse:
    """Archive or restore the project."""
    actor, is_active = actor_of(request), request.POST.get("to") == "used"
    project = access_project(actor, project_id, Action.CLOSE)
    with errors_as_messages(request):
        archiving.update_project(actor=actor, project_id=project_id, is_active=is_active)
        sentence = (
            _("The project “{name}” is restored.") if is_active else _("The project “{name}” is archived.")
        )
        messages.success(request, sentence.format(name=project.name))
    return redirect("project", project_id)


@login_required
@require_POST
def purge_project(request: HttpRequest, project_id: int) -> HttpResponse:
    actor = actor_of(request)
    project = access_project(actor, project_id, Action.PURGE)
    if request.POST.get("confirm", "") != project.name:
        messages.error(request, _("This is not the name of the project, so nothing was done."))
        return redirect("project", project_id)
    with errors_as_messages(request):
        archiving.purge_project(actor=actor, project_id=project_id)
        messages.success(request, _("The project “{name}” is purged.").format(name=project.name))
        return redirect("projects")
    return redirect("project", project_id)


def _list_page(
    request: HttpRequest, actor: Actor, form: NewProjectForm, domains: Sequence[str], *, status: int = 200
) -> HttpResponse:
    without = () if sees_everything(actor) else ("domain",)
    listing = Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name), without=without)
    if not without:
        listing.choices = {"domain": [(name, name) for name in domains]}
    page = listing.page(overseen_projects(actor), _with_counts)
    actor_scope = read_actor_scope(actor)
    may_add = Action.CREATE in authorization.project_actions(
        actor_scope, project_id=0, domain_id=actor_scope.domain_id
    )
    context = {
        "listing": listing, "columns": listing.columns, "page": page, "form": form if may_add else None,
    }  # fmt: skip
    return render(request, "accounts/projects.html", context, status=status)


def _page(
    request: HttpRequest,
    project: Project,
    form: NamedForm,
    *,
    member_form: MemberForm | None = None,
    status: int = 200,
) -> HttpResponse:
    allowed = actions_on_project(read_actor_scope(actor_of(request)), project)
    rules = read_rules(project)
    context: dict[str, Any] = {
        "project": project,
        "state": "open" if project.is_active else "archived",
        "members": project.memberships.select_related("user").order_by("user__email"),
        "member_form": (member_form or MemberForm()) if Action.MANAGE_MEMBERS in allowed else None,
        "form": form if Action.EDIT in allowed else None,
        "rules": rule_sentences(rules),
        "rule_failures": rule_failures(project)[:SHOWN_FAILURES] if Action.EDIT in allowed else (),
        "policy_card": policy_card(actor_of(request), project, may_limit=Action.LIMIT in allowed),
        "budget_card": budget_card(project, may_limit=Action.LIMIT in allowed),
        "can_close": Action.CLOSE in allowed,
        "can_purge": Action.PURGE in allowed and not project.is_active,
    }
    return render(request, "accounts/project.html", context, status=status)


def _named_form(project: Project) -> NamedForm:
    return NamedForm(initial={"name": project.name, "title": project.title})


def _with_counts(projects: QuerySet[Project]) -> QuerySet[Project]:
    return projects.annotate(member_count=Count("memberships"))
