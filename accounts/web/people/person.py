"""Pages of one user: details, changes, sign-in, closing, reopening and purging."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.authorization import Action, ActorScope
from accounts.core.roles import ROLE_TITLES, Role
from accounts.logins.impersonation import max_duration
from accounts.logins.required_actions import has_second_factor
from accounts.models import OffBoarding, SshKey, User
from accounts.selectors import (
    access_user,
    access_user_in,
    actions_on_user,
    find_domain,
    find_user,
    known_memberships,
    read_actor_scope,
    visible_domains,
    visible_users,
)
from accounts.sign_in import admin_control, second_factor
from accounts.tenancy import offboarding, owned_resources, service
from accounts.web.budgets.budgets import budget_card
from accounts.web.form_errors import add_errors, errors_as_messages, errors_in_form
from accounts.web.page_access import require_administrator
from accounts.web.people.forms import CloseUserForm, PersonForm
from accounts.web.policies.policies import policy_card
from accounts.web.profile.keypairs import token_row
from common.actors import Actor
from common.errors import BerthError, Conflict, InvalidInput, TooManyRequests
from common.rest.actor import actor_of


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def person_page(request: HttpRequest, user_id: int) -> HttpResponse:
    """Show one user; POST changes the account."""
    actor = require_administrator(request)
    actor_scope, is_post = read_actor_scope(actor), request.method == "POST"
    person = access_user_in(_with_facts(actor), user_id, Action.EDIT if is_post else Action.VIEW, actor_scope)
    form = _form(actor_scope, person, request.POST if is_post else None)
    if not is_post:
        return _page(request, person, form, actor_scope)
    if form.is_valid():
        wanted = dict(form.cleaned_data)
        with errors_in_form(form):
            if domain := wanted.pop("domain", ""):
                wanted["domain"] = find_domain(actor, domain)
            service.update_user(actor=actor, user_id=user_id, **{**wanted, "role": Role(wanted["role"])})
            messages.success(request, _("The account is changed."))
            return redirect("person", user_id)
    return _page(request, person, form, actor_scope, status=422)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def close_person(request: HttpRequest, user_id: int) -> HttpResponse:
    """Show the user's resources; POST closes the account if its address was typed."""
    actor = require_administrator(request)
    person = access_user(actor, user_id, Action.CLOSE)
    form = CloseUserForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return _closing_page(request, person, form, status=422 if request.method == "POST" else 200)
    try:
        _check_typed(request, person)
        new_owner_email = form.cleaned_data["heir"]
        new_owner = find_user(actor, new_owner_email, field="heir") if new_owner_email else None
        folders = OffBoarding.Folders(form.cleaned_data["folders"])
        offboarding.close_user(actor=actor, user_id=user_id, folders=folders, new_owner=new_owner)
    except BerthError as refusal:
        add_errors(form, refusal)
        return _closing_page(request, person, form, status=422, error=refusal.fields.get("confirm", [""])[0])
    messages.success(
        request,
        _("The account of {person} is closed. The offboarding report is below.").format(person=person.email),
    )
    return redirect("person", user_id)


@login_required
@require_POST
def reopen_person(request: HttpRequest, user_id: int) -> HttpResponse:
    person = offboarding.reopen_user(actor=require_administrator(request), user_id=user_id)
    messages.success(
        request,
        _("The account of {person} is open. Memberships and tokens do not come back by themselves.").format(
            person=person.email
        ),
    )
    return redirect("person", user_id)


@login_required
@require_POST
def purge_person(request: HttpRequest, user_id: int) -> HttpResponse:
    actor = require_administrator(request)
    person = access_user(actor, user_id, Action.PURGE)
    with errors_as_messages(request):
        _check_typed(request, person)
        offboarding.purge_user(actor=actor, user_id=user_id)
        messages.success(request, _("The account of {person} is purged.").format(person=person.email))
        return redirect("people")
    return redirect("person", user_id)


@login_required
@require_POST
def change_sign_in(request: HttpRequest, user_id: int) -> HttpResponse:
    actor = require_administrator(request)
    with errors_as_messages(request, Conflict, InvalidInput):
        admin_control.update_sign_in(
            actor=actor,
            user_id=user_id,
            must_change_password="must_change_password" in request.POST,
            allowed_networks=request.POST.get("allowed_networks", "").replace(",", "\n").splitlines(),
        )
        messages.success(request, _("How this person signs in is changed."))
    return redirect("person", user_id)


@login_required
@require_POST
def end_logins(request: HttpRequest, user_id: int) -> HttpResponse:
    count = admin_control.end_user_logins(actor=require_administrator(request), user_id=user_id)
    sentence = ngettext("{count} browser is signed out.", "{count} browsers are signed out.", count)
    messages.success(request, sentence.format(count=count))
    return redirect("person", user_id)


@login_required
@require_POST
def mail_password_link(request: HttpRequest, user_id: int) -> HttpResponse:
    with errors_as_messages(request, Conflict, TooManyRequests):
        admin_control.mail_password_link(actor=require_administrator(request), user_id=user_id)
        messages.success(request, _("The mail is on its way."))
    return redirect("person", user_id)


@login_required
@require_POST
def reset_second_factor(request: HttpRequest, user_id: int) -> HttpResponse:
    with errors_as_messages(request, Conflict):
        person = second_factor.reset_second_factor(actor=require_administrator(request), user_id=user_id)
        messages.success(request, _("{name} has no second factor any more.").format(name=person.email))
    return redirect("person", user_id)


def _check_typed(request: HttpRequest, person: User) -> None:
    if request.POST.get("confirm", "").strip().lower() != person.email:
        raise InvalidInput.at("confirm", _("This is not the address of the account, so nothing was done."))


def _with_facts(actor: Actor) -> QuerySet[User]:
    """Visible users annotated with what the page needs, to save queries: existence of a second
    factor, SSH keys and an offboarding, and the names of domains to move to.
    """
    domains = visible_domains(actor).order_by("name").values("name")
    return (
        visible_users(actor)
        .select_related("policy")
        .annotate(
            has_second_factor=has_second_factor("pk"),
            has_case=Exists(OffBoarding.objects.filter(user_id=OuterRef("pk"))),
            has_ssh_keys=Exists(SshKey.objects.filter(user_id=OuterRef("pk"))),
            domain_names=ArraySubquery(domains),
        )
    )


def _form(actor_scope: ActorScope, person: Any, data: object = None) -> PersonForm:
    """Return the form of a user that was read by `_with_facts`."""
    own = Role(person.role)
    can_give = person.pk != actor_scope.user_id and own in authorization.assignable_roles(actor_scope)
    can_move = Action.MOVE in actions_on_user(actor_scope, person)
    return PersonForm(
        data,
        roles=authorization.assignable_roles(actor_scope) if can_give else [own],
        domains=person.domain_names if can_move else [],
        initial={
            "email": person.email, "name": person.name, "role": person.role, "domain": person.domain.name,
        },
    )  # fmt: skip


def _page(
    request: HttpRequest, person: Any, form: PersonForm, actor_scope: ActorScope, *, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    allowed = actions_on_user(actor_scope, person)
    case = person.offboardings.select_related("heir", "asked_by").first() if person.has_case else None
    context = {
        "person": person,
        "state": "open" if person.is_active else "closed",
        "role_title": _(ROLE_TITLES[Role(person.role)]),
        "memberships": known_memberships(actor).filter(user=person),
        "form": form if Action.EDIT in allowed else None,
        "policy_card": policy_card(actor, person, may_limit=Action.LIMIT in allowed, actor_scope=actor_scope),
        "budget_card": budget_card(person, may_limit=Action.LIMIT in allowed),
        "has_second_factor": person.has_second_factor and Action.EDIT in allowed,
        "is_oneself": person.pk == actor.user_id,
        "can_view_as": Action.VIEW_AS in allowed and person.is_active and bool(max_duration()),
        "can_close": Action.CLOSE in allowed and person.is_active,
        "can_reopen": Action.CLOSE in allowed and not person.is_active,
        "can_purge": Action.PURGE in allowed and not person.is_active,
        "case": case if Action.CLOSE in allowed else None,
        "report": offboarding.offboarding_report(case) if case else [],
        "tokens": [token_row(each) for each in person.keypairs.all()] if Action.EDIT in allowed else [],
        "ssh_keys": person.ssh_keys.select_related("keypair")
        if person.has_ssh_keys and Action.EDIT in allowed
        else [],
    }
    return render(request, "accounts/person.html", context, status=status)


def _closing_page(
    request: HttpRequest, person: User, form: CloseUserForm, *, status: int = 200, error: str = ""
) -> HttpResponse:
    context: dict[str, Any] = {
        "person": person,
        "form": form,
        "error": error,
        "affected": [
            owned_resources.item_label(handler.NAME, item.name)
            for handler, item in owned_resources.owned_items(person)
        ],
        "memberships": person.memberships.select_related("project").order_by("project__name"),
    }
    return render(request, "accounts/close_person.html", context, status=status)
