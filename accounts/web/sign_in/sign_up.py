"""Pages for visitors without an account: accepting an invitation, and sign-up."""

from django import forms
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.core.throttle import Purpose
from accounts.models import Invitation
from accounts.sign_in.throttle import count_attempt
from accounts.tenancy import invitations
from accounts.web.form_errors import errors_in_form
from common.errors import InvalidInput, PermissionDenied
from common.pages.form_fields import UncheckedField
from common.rest.actor import actor_of

SIGN_IN_BACKEND = "accounts.sign_in.auth_backends.SignInBackend"


class AcceptInvitationForm(forms.Form):
    """Form that accepts an invitation. With `has_address` the invitation sets the address."""

    email = forms.CharField(
        max_length=254,
        label=gettext_lazy("E-mail"),
        help_text=gettext_lazy("You sign in with it."),
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    name = UncheckedField(
        max_length=120,
        required=False,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    password = forms.CharField(
        max_length=128,
        strip=False,
        label=gettext_lazy("Password"),
        help_text=gettext_lazy("At least 10 characters."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, data: object = None, *, has_address: bool) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        if has_address:
            del self.fields["email"]


class SignUpRequestForm(forms.Form):
    email = forms.CharField(
        max_length=254, label=gettext_lazy("E-mail"), widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def accept_invitation(request: HttpRequest, code: str) -> HttpResponse:
    """Show the invitation; POST creates the account and signs in."""
    invitation = invitations.find_open_invitation(code)
    if request.user.is_authenticated:
        return render(request, "accounts/invitation.html", {"person": request.user})
    posted = request.POST if request.method == "POST" else None
    form = AcceptInvitationForm(posted, has_address=bool(invitation.email))
    if form.is_valid():
        count_attempt(request, Purpose.JOIN, "")
        with errors_in_form(form, InvalidInput):
            user = invitations.accept_invitation(actor=actor_of(request), code=code, **form.cleaned_data)
            login(request, user, backend=SIGN_IN_BACKEND)
            return redirect("start")
    return _invitation_page(request, invitation, form, status=200 if posted is None else 422)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    """Show the sign-up form; POST mails a link. The response does not reveal known addresses."""
    if request.user.is_authenticated:
        return redirect("start")
    if not invitations.is_sign_up_open():
        return render(request, "accounts/sign_up.html")
    form = SignUpRequestForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        email = form.cleaned_data["email"].strip().lower()
        count_attempt(request, Purpose.SIGN_UP, email)
        with errors_in_form(form, InvalidInput, PermissionDenied):
            invitations.request_sign_up(actor=actor_of(request), email=email)
            return render(request, "accounts/sign_up.html", {"email": email}, status=202)
    return render(
        request, "accounts/sign_up.html", {"form": form}, status=422 if request.method == "POST" else 200
    )


def _invitation_page(
    request: HttpRequest, invitation: Invitation, form: AcceptInvitationForm, *, status: int
) -> HttpResponse:
    projects = list(invitation.projects.filter(is_active=True).values_list("name", flat=True))
    context = {"invitation": invitation, "projects": projects, "form": form}
    return render(request, "accounts/invitation.html", context, status=status)
