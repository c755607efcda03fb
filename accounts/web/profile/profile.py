"""Profile page, column choices of lists, and one-time sign-in links."""

from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts import selectors
from accounts.core.roles import ROLE_TITLES, Role
from accounts.sign_in.audit_events import last_sign_ins
from accounts.tenancy import preferences, service
from accounts.web.chosen_project import chosen_project
from accounts.web.policies.limits import limits_card
from common.pages.htmx import local_url
from common.pages.tables import find_table
from common.rest.actor import actor_of

SIGN_IN_BACKEND = "accounts.sign_in.auth_backends.SignInBackend"


@login_required
@require_http_methods(["GET", "HEAD"])
def profile(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    context = {
        "person": request.user,
        "role_title": _(ROLE_TITLES[Role(request.user.role)]),  # type: ignore[union-attr]
        "memberships": selectors.own_memberships(actor),
        "limits": limits_card(actor, chosen_project(request)),
        "sign_ins": last_sign_ins(actor),
    }
    return render(request, "accounts/profile.html", context)


@login_required
@require_POST
def choose_columns(request: HttpRequest) -> HttpResponse:
    """Save the column choice of a list and return to it."""
    table = find_table(request.POST.get("table", ""))
    offered = request.POST.getlist("offered")
    columns = [column.name for column in table.columns if column.name in offered and not column.is_fixed]
    preferences.choose_columns(
        actor=actor_of(request), table=table.name, columns=columns, shown=request.POST.getlist("column")
    )
    return redirect(local_url(request, request.POST.get("back", "")))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_once(request: HttpRequest, code: str) -> HttpResponse:
    """Show a button, so that link previews do not use up the link; POST signs in."""
    next_url = request.GET.get("next", "")
    if request.method != "POST":
        return render(request, "accounts/sign_in_once.html", {"next": next_url})
    user = service.redeem_sign_in_link(actor=actor_of(request), code=code)
    user.backend = SIGN_IN_BACKEND  # type: ignore[attr-defined]
    # Same stages as with a password, so that a second factor is required.
    answer: HttpResponse = perform_login(request, Login(user=user, redirect_url=local_url(request, next_url)))
    return answer
