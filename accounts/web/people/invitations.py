"""Page of invitations: list, create, revoke."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import CharField, F, Q, QuerySet
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.roles import ROLE_TITLES, Role
from accounts.core.sign_up import InvitationState, SignUp
from accounts.models import Invitation, ResourcePolicy
from accounts.selectors import (
    manageable_projects,
    may_do_everything,
    oversees_people,
    read_actor_scope,
    sees_everything,
    visible_domains,
)
from accounts.tenancy import invitations
from accounts.tenancy.preferences import column_choice
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import page_not_found
from accounts.web.people.forms import InvitationForm
from common import clock
from common.actors import Actor
from common.pages.tables import Column, Listing, Tab, Table, choices_of, define_table
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once

TABLE = define_table(
    Table(
        name="invitations",
        noun=gettext_noop("invitations"),
        sort="-made",
        search=lambda text: Q(email__icontains=text) | Q(inviter__email__icontains=text),
        search_label=gettext_noop("Search by e-mail"),
        columns=(
            Column("whom", gettext_noop("For"), ("email", "id"), is_fixed=True),
            Column("state", gettext_noop("State")),
            Column("role", gettext_noop("Role"), ("role", "id")),
            Column("domain", gettext_noop("Domain"), ("domain__name", "id")),
            Column("projects", gettext_noop("Projects")),
            Column("inviter", gettext_noop("By"), ("inviter__email", "id"), is_usual=False),
            Column("until", gettext_noop("Until"), ("expires_at",), is_number=True),
            Column("made", gettext_noop("Created"), ("created_at",), is_number=True, is_usual=False),
            Column("revoke", "", is_fixed=True),
        ),
    )
)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="invitations")
def invitation_list(request: HttpRequest) -> HttpResponse:
    """List the invitations; POST creates one, and only its response shows the link."""
    actor = _require_overseer(request)
    form = _form(actor, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        wanted = dict(form.cleaned_data)
        policy = wanted.pop("policy", "")
        wanted.setdefault("domain", next(iter(form.domains), ""))
        with errors_in_form(form):
            invitation, url = invitations.create_invitation(
                actor=actor,
                **{**wanted, "role": Role(wanted["role"])},
                policy=ResourcePolicy.objects.filter(pk=policy).first() if policy else None,
            )
            created = {
                "invitation": invitation,
                "url": url,
                "is_mailed": bool(invitation.email) and settings.BERTH_MAIL,
            }
            return _page(request, actor, _form(actor), created=created, status=201)
    return _page(request, actor, form, status=422 if request.method == "POST" else 200)


@login_required
@require_POST
def revoke_invitation(request: HttpRequest, invitation_id: int) -> HttpResponse:
    invitations.revoke_invitation(actor=_require_overseer(request), invitation_id=invitation_id)
    messages.success(request, _("The invitation is revoked; its link lets nobody in."))
    return redirect("invitations")


def _require_overseer(request: HttpRequest) -> Actor:
    if not oversees_people(request.user):  # type: ignore[arg-type]
        raise page_not_found()
    return actor_of(request)


def _form(actor: Actor, data: object = None) -> InvitationForm:
    domains = visible_domains(actor).filter(is_active=True).exclude(sign_up=SignUp.CLOSED)
    policies = ResourcePolicy.objects.all() if may_do_everything(actor) else ResourcePolicy.objects.none()
    offered = choices_of(
        domain=(domains, "name", "name"),
        project=(manageable_projects(actor).filter(is_active=True), "name", "name"),
        policy=(policies, Cast("pk", CharField()), "name"),
    )
    return InvitationForm(
        data,
        roles=authorization.assignable_roles(read_actor_scope(actor)),
        domains=[name for name, _title in offered["domain"]],
        projects=[name for name, _title in offered["project"]],
        policies=offered["policy"],
    )


def _page(
    request: HttpRequest,
    actor: Actor,
    form: InvitationForm,
    *,
    created: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    without = () if sees_everything(actor) else ("domain",)
    chosen = column_choice(actor, TABLE.name)
    listing = Listing(TABLE, request.GET, chosen=chosen, without=without, tabs=_tabs())
    page = listing.page(invitations.visible_invitations(actor), _with_projects)
    can_invite = bool(form.roles)
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": [_row(invitation, can_invite) for invitation in page],
        "form": form if can_invite and form.domains else None,
        "can_invite": can_invite,
        "created": created,
        "sees_all": sees_everything(actor),
    }
    return render(request, "accounts/invitations.html", context, status=status)


def _tabs() -> tuple[Tab, ...]:
    is_over = Q(used__gte=F("uses")) | Q(revoked_at__isnull=False) | Q(expires_at__lte=clock.now())
    return Tab("open", gettext_noop("Open"), ~is_over), Tab("over", gettext_noop("Ended"), is_over)


def _row(invitation: Invitation, can_invite: bool) -> dict[str, Any]:
    state = invitations.current_state(invitation)
    return {
        "invitation": invitation,
        "state": state.value,
        "role_title": _(ROLE_TITLES[Role(invitation.role)]),
        "can_revoke": can_invite and state in (InvitationState.OPEN, InvitationState.VOID),
    }


def _with_projects(rows: QuerySet[Invitation]) -> QuerySet[Invitation]:
    return rows.select_related("domain", "inviter").prefetch_related("projects")
