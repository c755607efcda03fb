"""Pages of domains for superadmins; read-only for monitors."""

import re

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.sign_up import SignUp
from accounts.models import Domain, Project, User
from accounts.selectors import access_domain, read_actor_scope, visible_domains
from accounts.tenancy import archiving, service
from accounts.tenancy.preferences import column_choice
from accounts.web.form_errors import errors_as_messages, errors_in_form
from accounts.web.page_access import require_global_overseer
from accounts.web.people.forms import DomainForm, NamedForm, SignUpForm
from accounts.web.policies.policies import policy_card
from common.actors import Actor
from common.errors import NotFound
from common.pages.tables import Column, Listing, Tab, Table, define_table
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once

TABLE = define_table(
    Table(
        name="domains",
        noun=gettext_noop("domains"),
        sort="name",
        search=lambda text: Q(name__icontains=text) | Q(title__icontains=text),
        search_label=gettext_noop("Search by name"),
        columns=(
            Column("name", gettext_noop("Domain"), ("name",), is_fixed=True),
            Column("people", gettext_noop("People"), is_number=True),
            Column("projects", gettext_noop("Projects"), is_number=True),
            Column("created", gettext_noop("Created"), ("created_at",), is_number=True),
        ),
        tabs=(
            Tab("open", gettext_noop("Open"), Q(is_active=True)),
            Tab("closed", gettext_noop("Closed"), Q(is_active=False)),
        ),
    )
)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="domains")
def domain_list(request: HttpRequest) -> HttpResponse:
    """List the domains; POST creates one."""
    actor = require_global_overseer(request)
    form = NamedForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        with errors_in_form(form):
            domain = service.create_domain(actor=actor, **form.cleaned_data)
            messages.success(request, _("The domain “{name}” is ready.").format(name=domain.name))
            return redirect("domain", domain.pk)
    return _list_page(request, actor, form, status=422 if request.method == "POST" else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def domain_page(request: HttpRequest, domain_id: int) -> HttpResponse:
    """Show one domain; POST changes it."""
    actor = require_global_overseer(request)
    if request.method != "POST":
        domain = access_domain(actor, domain_id, Action.VIEW)
        initial = {"name": domain.name, "title": domain.title, "second_factor": domain.second_factor}
        return _page(request, domain, DomainForm(initial=initial))
    domain = access_domain(actor, domain_id, Action.EDIT)
    form = DomainForm(request.POST)
    if form.is_valid():
        with errors_in_form(form):
            archiving.update_domain(actor=actor, domain_id=domain_id, **form.cleaned_data)
            messages.success(request, _("The domain is changed."))
            return redirect("domain", domain_id)
    return _page(request, domain, form, status=422)


@login_required
@require_POST
def change_sign_up(request: HttpRequest, domain_id: int) -> HttpResponse:
    """Set the sign-up mode of the domain."""
    actor = require_global_overseer(request)
    domain = access_domain(actor, domain_id, Action.EDIT)
    named, form = NamedForm(initial={"name": domain.name, "title": domain.title}), SignUpForm(request.POST)
    if form.is_valid():
        wanted = form.cleaned_data
        names = re.split(r"[\s,;]+", wanted["mail_domains"])
        with errors_in_form(form):
            archiving.set_sign_up(
                actor=actor, domain_id=domain_id, sign_up=SignUp(wanted["sign_up"]), mail_domains=names
            )
            messages.success(request, _("The domain is changed."))
            return redirect("domain", domain_id)
    return _page(request, domain, named, sign_up=form, status=422)


@login_required
@require_POST
def change_domain_state(request: HttpRequest, domain_id: int) -> HttpResponse:
    """Close the domain if its name was typed, or reopen it."""
    actor, is_active = require_global_overseer(request), request.POST.get("to") == "open"
    domain = access_domain(actor, domain_id, Action.CLOSE)
    with errors_as_messages(request):
        if not is_active and request.POST.get("confirm", "") != domain.name:
            raise NotFound(_("This is not the name of the domain, so nothing was done."))
        archiving.update_domain(actor=actor, domain_id=domain_id, is_active=is_active)
        sentence = (
            _("The domain “{name}” is open again.") if is_active else _("The domain “{name}” is closed.")
        )
        messages.success(request, sentence.format(name=domain.name))
    return redirect("domain", domain_id)


@login_required
@require_POST
def purge_domain(request: HttpRequest, domain_id: int) -> HttpResponse:
    actor = require_global_overseer(request)
    domain = access_domain(actor, domain_id, Action.PURGE)
    with errors_as_messages(request):
        if request.POST.get("confirm", "") != domain.name:
            raise NotFound(_("This is not the name of the domain, so nothing was done."))
        archiving.purge_domain(actor=actor, domain_id=domain_id)
        messages.success(request, _("The domain “{name}” is purged.").format(name=domain.name))
        return redirect("domains")
    return redirect("domain", domain_id)


def _list_page(request: HttpRequest, actor: Actor, form: NamedForm, *, status: int = 200) -> HttpResponse:
    listing = Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name))
    page = listing.page(visible_domains(actor), _with_counts)
    may_add = Action.CREATE in authorization.domain_actions(read_actor_scope(actor), 0)
    context = {
        "listing": listing, "columns": listing.columns, "page": page, "form": form if may_add else None,
    }  # fmt: skip
    return render(request, "accounts/domains.html", context, status=status)


def _page(
    request: HttpRequest,
    domain: Domain,
    form: NamedForm,
    *,
    sign_up: SignUpForm | None = None,
    status: int = 200,
) -> HttpResponse:
    allowed = authorization.domain_actions(read_actor_scope(actor_of(request)), domain.pk)
    names = " ".join(domain.mail_domains.values_list("name", flat=True))
    context = {
        "sign_up": sign_up or SignUpForm(initial={"sign_up": domain.sign_up, "mail_domains": names}),
        "has_mail": settings.BERTH_MAIL,
        "domain": domain,
        "state": "open" if domain.is_active else "closed",
        "form": form if Action.EDIT in allowed else None,
        "can_close": Action.CLOSE in allowed,
        "people_count": domain.users.filter(purged_at=None).count(),
        "project_count": domain.projects.count(),
        "policy_card": policy_card(actor_of(request), domain, may_limit=Action.LIMIT in allowed),
    }
    return render(request, "accounts/domain.html", context, status=status)


def _with_counts(domains: QuerySet[Domain]) -> QuerySet[Domain]:
    people = User.objects.filter(domain=OuterRef("pk"), purged_at=None).order_by().values("domain")
    projects = Project.objects.filter(domain=OuterRef("pk")).order_by().values("domain")
    return domains.annotate(
        people_count=Coalesce(Subquery(people.annotate(count=Count("pk")).values("count")), 0),
        project_count=Coalesce(Subquery(projects.annotate(count=Count("pk")).values("count")), 0),
    )
