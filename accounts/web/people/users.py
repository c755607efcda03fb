"""Page of users: list, export, creation, and closing of several accounts."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.roles import ROLE_TITLES, Role
from accounts.models import Membership, User
from accounts.selectors import (
    actions_on_user,
    known_projects,
    manageable_projects,
    read_actor_scope,
    sees_everything,
    visible_domains,
    visible_users,
    with_projects,
)
from accounts.sign_in import onboarding
from accounts.tenancy import offboarding
from accounts.tenancy.preferences import column_choice
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import page_not_found, require_administrator
from accounts.web.people.forms import NewPersonForm
from common.actors import Actor
from common.pages.bulk_actions import chosen_numbers, done_count, run_bulk_action
from common.pages.csv_export import csv_response
from common.pages.tables import Column, Filter, Listing, Tab, Table, choices_of, define_table
from common.rest.idempotency import submit_once

IS_OPEN, IS_CLOSED = Q(is_active=True), Q(is_active=False)
TABLE = define_table(
    Table(
        name="people",
        noun=gettext_noop("people"),
        sort="person",
        search=lambda text: Q(email__icontains=text) | Q(name__icontains=text),
        search_label=gettext_noop("Search by e-mail or name"),
        columns=(
            Column("person", gettext_noop("Person"), ("email",), is_fixed=True),
            Column("role", gettext_noop("Role"), ("role", "email")),
            Column("domain", gettext_noop("Domain"), ("domain__name", "email")),
            Column("projects", gettext_noop("Projects")),
            Column("seen", gettext_noop("Last sign-in"), ("last_login",), is_number=True),
            Column("created", gettext_noop("Added"), ("created_at",), is_number=True, is_usual=False),
        ),
        filters=(
            Filter("role", gettext_noop("Role"), lambda role: Q(role=role)),
            Filter(
                "project",
                gettext_noop("Project"),
                lambda name: Q(pk__in=Membership.objects.filter(project__name=name).values("user_id")),
            ),
            Filter("domain", gettext_noop("Domain"), lambda name: Q(domain__name=name)),
        ),
        tabs=(Tab("open", gettext_noop("Open"), IS_OPEN), Tab("closed", gettext_noop("Closed"), IS_CLOSED)),
    )
)
EXPORTED = ("id", "e-mail", "name", "role", "domain", "projects", "state", "last sign-in", "added")


@require_GET
@login_required
def people_list(request: HttpRequest) -> HttpResponse:
    actor = require_administrator(request)
    listing = _listing(request, actor)
    listing.choices = {
        "role": [(role.value, _(title)) for role, title in ROLE_TITLES.items()],
        **choices_of(
            project=(known_projects(actor), "name", "name"), domain=(visible_domains(actor), "name", "name")
        ),
    }
    page = listing.page(visible_users(actor), partial(with_projects, actor))
    actor_scope = read_actor_scope(actor)
    rows = [person_row(person, can_close=Action.CLOSE in _actions(actor_scope, person)) for person in page]
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": rows,
        "can_add": bool(authorization.assignable_roles(actor_scope)),
        "sees_invitations": actor_scope.role is not Role.USER,
        "has_picks": any(row["can_close"] for row in rows),
    }
    return render(request, "accounts/people.html", context)


@require_GET
@login_required
def people_export(request: HttpRequest) -> StreamingHttpResponse:
    """Return the list with its current search, filters and order as CSV, all pages."""
    actor = require_administrator(request)
    rows = _listing(request, actor).of_tab(visible_users(actor))
    return csv_response("people.csv", EXPORTED, rows, partial(_with_names, actor), _cells)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="people")
def new_person(request: HttpRequest) -> HttpResponse:
    """Show the form; POST creates a user. Without a password, only its response shows the link for
    the first sign-in.
    """
    actor = require_administrator(request)
    if not authorization.assignable_roles(read_actor_scope(actor)):
        raise page_not_found()
    form = _new_form(request, actor)
    if request.method == "POST" and form.is_valid():
        values = {**form.cleaned_data, "role": Role(form.cleaned_data["role"])}
        projects = list(filter(None, [values.pop("project")]))
        with errors_in_form(form):
            person, url = onboarding.onboard_user(actor=actor, **values, projects=projects)
            if url:
                return render(request, "accounts/new_person.html", {"person": person, "url": url}, status=201)
            messages.success(request, _("{person} can sign in now.").format(person=person.email))
            return redirect("person", person.pk)
    status = 422 if request.method == "POST" else 200
    return render(request, "accounts/new_person.html", {"form": form}, status=status)


@require_POST
@login_required
def close_many(request: HttpRequest) -> HttpResponse:
    """Close accounts after a typed confirmation, keep their folders, and report each result."""
    actor = require_administrator(request)
    ids = chosen_numbers(request.POST, "person")
    back = f"{reverse('people')}?{request.POST.get('back', '')}"
    people = {person.pk: person for person in visible_users(actor).filter(pk__in=ids)}
    if not ids:
        messages.info(request, _("Choose the people first: tick them in the list."))
        return redirect(back)
    context: dict[str, Any] = {"back": back, "query": request.POST.get("back", "")}
    typed, word = request.POST.get("confirm"), _("close {count}").format(count=len(ids))
    if typed != word:
        context |= {"people": [people[pk] for pk in ids if pk in people], "ids": ids, "word": word}
        context["error"] = "" if typed is None else _("These are not the words, so nothing was closed.")
        return render(request, "accounts/close_many.html", context, status=422 if context["error"] else 200)
    outcomes = run_bulk_action(
        request,
        ids,
        lambda pk: _close(actor, pk),
        object_name=lambda pk: people[pk].email if pk in people else str(pk),
        object_url=lambda pk: reverse("person", args=[pk]) if pk in people else "",
    )
    context |= {"outcomes": outcomes, "done_count": done_count(outcomes)}
    return render(request, "accounts/closed_many.html", context)


def person_row(person: User, *, can_close: bool) -> dict[str, Any]:
    """Return the list row of a user whose projects were prefetched."""
    return {
        "person": person,
        "state": "open" if person.is_active else "closed",
        "role_title": _(ROLE_TITLES[Role(person.role)]),
        "projects": [membership.project for membership in person.memberships.all()],
        "can_close": can_close and person.is_active,
    }


def _close(actor: Actor, user_id: int) -> str:
    offboarding.close_user(actor=actor, user_id=user_id)
    return _("The account is closed; its sessions are being stopped, its folders stay.")


def _actions(actor_scope: authorization.ActorScope, person: User) -> authorization.Actions:
    """Return the allowed actions without the query for common projects: project admins cannot act
    on users in this list.
    """
    return (
        actions_on_user(actor_scope, person)
        if actor_scope.role is not Role.USER
        else authorization.NO_ACTIONS
    )


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    without = () if sees_everything(actor) else ("domain",)
    return Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name), without=without)


def _new_form(request: HttpRequest, actor: Actor) -> NewPersonForm:
    data = request.POST if request.method == "POST" else None
    return NewPersonForm(
        data,
        roles=authorization.assignable_roles(read_actor_scope(actor)),
        domains=_names(visible_domains(actor).filter(is_active=True)),
        projects=_names(manageable_projects(actor).filter(is_active=True).order_by("name")),
    )


def _names(rows: QuerySet[Any]) -> Sequence[str]:
    return list(dict.fromkeys(rows.values_list("name", flat=True)))


def _with_names(actor: Actor, people: QuerySet[User]) -> QuerySet[User]:
    return with_projects(actor, people.select_related("domain"))


def _cells(person: User) -> tuple[object, ...]:
    """Return one row of the export with the columns EXPORTED."""
    return (
        person.pk, person.email, person.name, person.role, person.domain.name,
        " ".join(membership.project.name for membership in person.memberships.all()),
        "open" if person.is_active else "closed",
        person.last_login and person.last_login.isoformat(timespec="seconds"),
        person.created_at.isoformat(timespec="seconds"),
    )  # fmt: skip
