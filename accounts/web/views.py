"""The profile with its API tokens, and the door for one-time sign-in links."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts import preferences, selectors, services
from accounts.chosen_project import chosen_project
from accounts.roles import ROLE_TITLES, Role
from accounts.sign_ins import last_sign_ins
from accounts.web.forms import TokenForm
from accounts.web.limits import limits_card
from common.api import actor_of
from common.errors import BerthError
from common.idempotency import once_a_form
from common.pages import own_address
from common.tables import table_named

SIGN_IN_BACKEND = "accounts.backends.SignInBackend"


@login_required
@require_http_methods(["GET", "HEAD"])
def profile(request: HttpRequest) -> HttpResponse:
    return _profile_page(request, TokenForm())


@login_required
@never_cache
@require_POST
@once_a_form(otherwise="profile")
def create_token(request: HttpRequest) -> HttpResponse:
    """Answers with the profile page that shows the new token: it is nowhere else, so there is no redirect. The same form
    sent again, by a reload, makes no second token."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _profile_page(request, form, status=400)
    try:
        token = services.create_keypair(actor=actor_of(request), name=form.cleaned_data["name"])[1]
    except BerthError as refusal:
        form.add_error("name", f"{refusal.message} {refusal.hint}".strip())
        return _profile_page(request, form, status=refusal.http_status)
    return _profile_page(request, TokenForm(), token=token, status=201)


@login_required
@require_POST
def delete_token(request: HttpRequest, keypair_id: int) -> HttpResponse:
    services.delete_keypair(actor=actor_of(request), keypair_id=keypair_id)
    messages.success(request, _("The token is deleted and works no more."))
    return redirect("profile")


@login_required
@require_POST
def choose_columns(request: HttpRequest) -> HttpResponse:
    """Which columns of a list this person wants to see; back to that list."""
    table = table_named(request.POST.get("table", ""))
    offered = request.POST.getlist("offered")
    columns = [column.name for column in table.columns if column.name in offered and not column.is_fixed]
    preferences.choose_columns(
        actor=actor_of(request), table=table.name, columns=columns, shown=request.POST.getlist("column")
    )
    return redirect(own_address(request, request.POST.get("back", "")))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_once(request: HttpRequest, code: str) -> HttpResponse:
    """GET shows a button, so that a program that looks ahead does not use the link up; POST signs in."""
    next_url = request.GET.get("next", "")
    if request.method != "POST":
        return render(request, "accounts/sign_in_once.html", {"next": next_url})
    user = services.redeem_sign_in_link(actor=actor_of(request), code=code)
    login(request, user, backend=SIGN_IN_BACKEND)
    return redirect(own_address(request, next_url))


def _profile_page(
    request: HttpRequest, form: TokenForm, *, token: str = "", status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    context = {
        "person": request.user,
        "role_title": _(ROLE_TITLES[Role(request.user.role)]),  # type: ignore[union-attr]
        "memberships": selectors.own_memberships(actor),
        "keypairs": selectors.visible_keypairs(actor),
        "limits": limits_card(actor, chosen_project(request)),
        "sign_ins": last_sign_ins(actor),
        "form": form,
        "token": token,
    }
    return render(request, "accounts/profile.html", context, status=status)
