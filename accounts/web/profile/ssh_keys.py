"""Pages of SSH public keys: the user's own, and removal by administrators."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core.ssh_key_format import MAX_NAME_LENGTH, PrivateKeyError
from accounts.credentials import ssh_keys
from accounts.web.form_errors import add_errors
from accounts.web.page_access import require_administrator
from common.errors import BerthError
from common.pages.form_fields import UncheckedField
from common.rest.actor import actor_of


class SshKeyForm(forms.Form):
    public_key = UncheckedField(
        label=gettext_lazy("Public key"),
        help_text=gettext_lazy(
            "The one line of ~/.ssh/id_ed25519.pub. No key yet? Run: ssh-keygen -t ed25519"
        ),
        widget=forms.Textarea(
            attrs={
                "rows": 5,
                "placeholder": "ssh-ed25519 AAAA…",
                "spellcheck": "false",
                "autocomplete": "off",
            }
        ),
    )
    name = UncheckedField(
        max_length=MAX_NAME_LENGTH,
        required=False,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Empty: the comment at the end of the key."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def ssh_keys_page(request: HttpRequest) -> HttpResponse:
    """List the keys; POST adds one."""
    if request.method != "POST":
        return _page(request, SshKeyForm())
    form = SshKeyForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=400)
    values = form.cleaned_data
    try:
        added = ssh_keys.add_ssh_key(
            actor=actor_of(request), public_key=values["public_key"], name=values["name"]
        )
    except BerthError as refusal:
        add_errors(form, refusal)
        if isinstance(refusal.__cause__, PrivateKeyError):
            form.data = {"name": values["name"]}
        return _page(request, form, status=refusal.http_status)
    messages.success(request, _("The SSH key “{name}” is added.").format(name=added.name))
    return redirect("ssh-keys")


@login_required
@require_POST
def remove_ssh_key(request: HttpRequest, ssh_key_id: int) -> HttpResponse:
    ssh_keys.remove_ssh_key(actor=actor_of(request), ssh_key_id=ssh_key_id)
    messages.success(request, _("The SSH key is removed."))
    return redirect("ssh-keys")


@login_required
@require_POST
def revoke_ssh_key(request: HttpRequest, user_id: int, ssh_key_id: int) -> HttpResponse:
    """Remove a key of another user, as an administrator of the account."""
    ssh_keys.revoke_ssh_key(actor=require_administrator(request), user_id=user_id, ssh_key_id=ssh_key_id)
    messages.success(request, _("The SSH key is removed."))
    return redirect("person", user_id)


def _page(request: HttpRequest, form: SshKeyForm, *, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {"ssh_keys": ssh_keys.visible_ssh_keys(actor_of(request)), "form": form}
    return render(request, "accounts/ssh_keys.html", context, status=status)
