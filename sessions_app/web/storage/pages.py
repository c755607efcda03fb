"""Pages of storage hosts: machines that reach them, and settings."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.selectors import may_do_everything
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import page_not_found, require_global_overseer
from common.errors import BerthError
from sessions_app.storage_reach import service
from sessions_app.storage_reach.selectors import host_entries, host_entry
from vfolders.core.mounts import VOLUME_TYPES
from vfolders.models import StorageHost

TYPED = {"spellcheck": "false", "autocomplete": "off"}


class ReachForm(forms.Form):
    """Form of how machines reach a host; `vfolders.core.mounts` checks the values."""

    reach = forms.ChoiceField(choices=StorageHost.Reach.choices, label=gettext_lazy("Machines reach it by"))
    agent_path = forms.CharField(
        required=False,
        max_length=500,
        label=gettext_lazy("Path on the machines"),
        help_text=gettext_lazy(
            "For a shared path: where the host is mounted on machines other than the portal's."
        ),
        widget=forms.TextInput(attrs=TYPED),
    )
    type = forms.ChoiceField(
        required=False,
        choices=[("", "—"), *((name, name) for name in VOLUME_TYPES)],
        label=gettext_lazy("File system"),
        help_text=gettext_lazy("For a Docker volume: the option “type” of the driver “local”."),
    )
    device = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Share"),
        help_text=gettext_lazy("Like :/export/folders (NFS) or //server/share/folders (SMB)."),
        widget=forms.TextInput(attrs=TYPED),
    )
    o = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Mount options"),
        help_text=gettext_lazy(
            "Like addr=10.0.0.5,nfsvers=4.2 or addr=10.0.0.5,username=berth,password={secret}."
        ),
        widget=forms.TextInput(attrs=TYPED),
    )
    secret = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Password"),
        help_text=gettext_lazy("Replaces {secret} in the options. Empty: the present one stays."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def changes(self) -> dict[str, Any]:
        values = self.cleaned_data
        secret = {"secret": values["secret"]} if values["secret"] else {}
        options = {name: values[name] for name in ("type", "o", "device")}
        return {
            "reach": values["reach"],
            "agent_path": values["agent_path"],
            "volume_options": options,
            **secret,
        }


@login_required
@require_safe
def storage_host_list(request: HttpRequest) -> HttpResponse:
    """List the storage hosts, and which machines reach them."""
    actor = require_global_overseer(request)
    context = {"entries": host_entries(actor), "may_change": may_do_everything(actor)}
    return render(request, "storage/hosts.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def storage_host_page(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Show or change how machines reach a host."""
    actor = require_global_overseer(request)
    if not may_do_everything(actor):
        raise page_not_found()
    entry = host_entry(actor, storage_host_id)
    present = {"reach": entry.host.reach, "agent_path": entry.host.agent_path, **entry.host.volume_options}
    form = ReachForm(request.POST if request.method == "POST" else None, initial=present)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            service.change_reach(actor=actor, host_id=storage_host_id, changes=form.changes())
            messages.success(request, _("Saved. All machines are proven within seconds."))
            return redirect("storage-hosts")
    return render(
        request, "storage/host.html", {"form": form, "entry": entry}, status=422 if form.errors else 200
    )


@login_required
@require_POST
def check_storage_host(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Prove all machines again."""
    actor = require_global_overseer(request)
    if not may_do_everything(actor):
        raise page_not_found()
    host = service.check_host(actor=actor, host_id=storage_host_id)
    messages.success(request, _("All machines prove “{host}” again within seconds.").format(host=host.name))
    return redirect("storage-hosts")
