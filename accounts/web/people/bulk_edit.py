"""Page that changes many users at once, one by one, with an undo if all had the same value
before.
"""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.limits import Level
from accounts.core.roles import ROLE_TITLES, Role
from accounts.models import Membership, User
from accounts.policies.selectors import access_policy, assignable_policies
from accounts.policies.service import assign_policy
from accounts.selectors import access_project, manageable_projects, read_actor_scope, visible_users
from accounts.tenancy import service
from accounts.web.page_access import page_not_found, require_administrator
from accounts.web.people.forms import BulkChangeForm
from common.actors import Actor
from common.errors import Conflict, NotFound
from common.pages.bulk_actions import chosen_numbers, done_count, run_bulk_action
from common.pages.toasts import offer_undo

Inverse = str
Apply = Callable[[Actor, User, str], tuple[str, Inverse]]


@require_POST
@login_required
def edit_many(request: HttpRequest) -> HttpResponse:
    """Show the choice of changes; POST with a change reports the result of each user."""
    actor = require_administrator(request)
    if not authorization.assignable_roles(read_actor_scope(actor)):
        raise page_not_found()
    ids = chosen_numbers(request.POST, "person")
    back = f"{reverse('people')}?{request.POST.get('back', '')}"
    people = {person.pk: person for person in visible_users(actor).filter(pk__in=ids)}
    if not ids:
        messages.info(request, _("Choose the people first: tick them in the list."))
        return redirect(back)
    context: dict[str, Any] = {"back": back, "query": request.POST.get("back", "")}
    form = BulkChangeForm(request.POST if "change" in request.POST else None, choices=_choices(actor))
    if not form.is_valid():
        context |= {"form": form, "ids": ids, "people": [people[pk] for pk in ids if pk in people]}
        return render(request, "accounts/edit_many.html", context, status=422 if form.is_bound else 200)

    changed: dict[int, Inverse] = {}
    outcomes = run_bulk_action(
        request,
        ids,
        lambda pk: _change(actor, people.get(pk), form.cleaned_data["change"], changed),
        object_name=lambda pk: people[pk].email if pk in people else str(pk),
        object_url=lambda pk: reverse("person", args=[pk]) if pk in people else "",
    )
    _offer_undo(request, changed)
    context |= {"outcomes": outcomes, "done_count": done_count(outcomes)}
    return render(request, "accounts/edited_many.html", context)


def _change(actor: Actor, person: User | None, change: str, changed: dict[int, Inverse]) -> str:
    """Change one user and add the inverse to `changed`. Returns the sentence of the result."""
    if person is None:
        raise NotFound(_("There is no such person among those whom you may see."))
    kind, _colon, value = change.partition(":")
    sentence, inverse = CHANGES[kind](actor, person, value)
    changed[person.pk] = inverse
    return sentence


def _set_role(actor: Actor, person: User, value: str) -> tuple[str, Inverse]:
    was, role = person.role, Role(value)
    if was == role:
        raise Conflict(_("Has this role already."))
    service.update_user(actor=actor, user_id=person.pk, role=role)
    return _("The role is now: {role}.").format(role=_(ROLE_TITLES[role])), f"role:{was}"


def _add_to_project(actor: Actor, person: User, value: str) -> tuple[str, Inverse]:
    project = access_project(actor, int(value), Action.MANAGE_MEMBERS)
    if Membership.objects.filter(project=project, user=person).exists():
        raise Conflict(_("Is in the project already."))
    service.add_member(actor=actor, project=project, user=person)
    return _("Is in the project “{name}” now.").format(name=project.name), f"leave:{project.pk}"


def _remove_from_project(actor: Actor, person: User, value: str) -> tuple[str, Inverse]:
    project = access_project(actor, int(value), Action.MANAGE_MEMBERS)
    if not Membership.objects.filter(project=project, user=person).exists():
        raise Conflict(_("Is not in the project."))
    service.remove_member(actor=actor, project=project, user=person)
    return _("Is not in the project “{name}” any more.").format(name=project.name), f"join:{project.pk}"


def _set_policy(actor: Actor, person: User, value: str) -> tuple[str, Inverse]:
    policy = access_policy(actor, int(value), Action.VIEW)
    was = person.policy_id
    if was == policy.pk:
        raise Conflict(_("Has this policy already."))
    assign_policy(actor=actor, target=person, policy=policy)
    return _("The policy is now: {name}.").format(name=policy.name), f"policy:{was}" if was else ""


CHANGES: dict[str, Apply] = {
    "role": _set_role,
    "join": _add_to_project,
    "leave": _remove_from_project,
    "policy": _set_policy,
}


def _choices(actor: Actor) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the possible changes in groups."""
    roles = authorization.assignable_roles(read_actor_scope(actor))
    projects = manageable_projects(actor).filter(is_active=True).order_by("name", "domain__name")
    names = [(project.pk, f"{project.name} ({project.domain.name})") for project in projects]
    policies = assignable_policies(actor, Level.USER, actor.domain_id or 0)
    return [
        (_("Give the role"), [(f"role:{role.value}", _(ROLE_TITLES[role])) for role in roles]),
        (_("Add to the project"), [(f"join:{pk}", name) for pk, name in names]),
        (_("Take out of the project"), [(f"leave:{pk}", name) for pk, name in names]),
        (_("Assign the policy"), [(f"policy:{policy.pk}", policy.name) for policy in policies]),
    ]


def _offer_undo(request: HttpRequest, changed: dict[int, Inverse]) -> None:
    """Offer an undo if a single change restores all users."""
    inverses = set(changed.values())
    if len(inverses) != 1 or "" in inverses:
        return
    sentence = ngettext("{count} person is changed.", "{count} people are changed.", len(changed))
    fields: dict[str, str | list[str]] = {
        "person": [str(pk) for pk in changed],
        "change": inverses.pop(),
        "back": request.POST.get("back", ""),
    }
    offer_undo(request, sentence.format(count=len(changed)), reverse("people-edit-many"), fields)
