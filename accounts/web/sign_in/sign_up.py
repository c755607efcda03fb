"""Pages for visitors without an account: accepting an invitation, and sign-up."""

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.core.throttle import Purpose
from accounts.models import Invitation
from accounts.sign_in.throttle import count_attempt
from accounts.tenancy import invitations
from accounts.web.form_errors import add_errors
from accounts.web.profile.forms import AcceptInvitationForm, SignUpRequestForm
from common.errors import BerthError, Conflict, InvalidInput
from common.rest.actor import actor_of

SIGN_IN_BACKEND = "accounts.sign_in.auth_backends.SignInBackend"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def accept_invitation(request: HttpRequest, code: str) -> HttpResponse:
    """Show the invitation; POST creates the account and signs in."""
    invitation = invitations.find_open_invitation(code)
    if request.user.is_authenticated:
        return render(request, "accounts/invitation.html", {"person": request.user})
    posted = request.POST if request.method == "POST" else None
    form = AcceptInvitationForm(posted, has_address=bool(invitation.email))
    if not form.is_valid():
        return _invitation_page(request, invitation, form, status=200 if posted is None else 422)
    count_attempt(request, Purpose.JOIN, "")
    try:
        user = invitations.accept_invitation(actor=actor_of(request), code=code, **form.cleaned_data)
    except InvalidInput as refusal:
        add_errors(form, refusal)
        return _invitation_page(request, invitation, form, status=422)
    login(request, user, backend=SIGN_IN_BACKEND)
    return redirect("start")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    """Show the sign-up form. POST mails a link; the response is the same for existing and new
    addresses.
    """
    if request.user.is_authenticated:
        return redirect("start")
    if not invitations.is_sign_up_open():
        return render(request, "accounts/sign_up.html")
    form = SignUpRequestForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return render(
            request,
            "accounts/sign_up.html",
            {"form": form},
            status=422 if request.method == "POST" else 200,
        )
    email = form.cleaned_data["email"].strip().lower()
    count_attempt(request, Purpose.SIGN_UP, email)
    try:
        invitations.request_sign_up(actor=actor_of(request), email=email)
    except Conflict:
        raise
    except BerthError as refusal:
        add_errors(form, refusal)
        return render(request, "accounts/sign_up.html", {"form": form}, status=422)
    return render(request, "accounts/sign_up.html", {"email": email}, status=202)


def _invitation_page(
    request: HttpRequest, invitation: Invitation, form: AcceptInvitationForm, *, status: int
) -> HttpResponse:
    projects = list(invitation.projects.filter(is_active=True).values_list("name", flat=True))
    context = {"invitation": invitation, "projects": projects, "form": form}
    return render(request, "accounts/invitation.html", context, status=status)
