"""Pages on which machines are added, and on which Berth's certificates are issued, again or no more."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.web.form_errors import errors_in_form
from agents.connections import invitations, service
from agents.connections.pasted import LONGEST_PEM, PastedCertificates
from agents.connections.ssh_keys import own_ssh_key
from agents.models import MachineInvitation
from agents.selectors import access_resource_group, visible_resource_groups
from agents.web.groups import superadmin_or_404
from common import clock
from common.actors import Actor
from common.errors import BerthError
from common.pages.htmx import is_fragment

CODE = {"spellcheck": "false", "autocomplete": "off", "class": "form-control code"}
BOX = forms.CheckboxInput(attrs={"class": "form-check-input"})
ISSUE, CERTIFICATES, SSH, PLAIN = "issue", "certificates", "ssh", "plain"
WAYS = [
    (ISSUE, gettext_lazy("Let Berth issue certificates (recommended)")),
    (CERTIFICATES, gettext_lazy("Paste certificates of the engine")),
    (SSH, gettext_lazy("SSH, with a key of Berth’s own")),
    (PLAIN, gettext_lazy("Plain text, without any protection")),
]


class PemField(forms.CharField):
    """PEM text, pasted or from a file of the form with the same name and `_file`."""

    def __init__(self, label: Any) -> None:
        area = forms.Textarea(attrs={"rows": 4, **CODE})
        super().__init__(required=False, max_length=LONGEST_PEM, label=label, widget=area)


class MachineForm(forms.Form):
    """Machine to be added; `service.NewAgent` and `invite_machine` check the values."""

    name = forms.CharField(
        max_length=64, label=gettext_lazy("Name"), help_text=gettext_lazy("How Berth calls it, like gpu-01.")
    )
    address = forms.CharField(
        max_length=255,
        label=gettext_lazy("Address"),
        help_text=gettext_lazy("tcp://10.0.0.7:2376, ssh://berth@gpu-01, or unix:///var/run/docker.sock."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    group = forms.ChoiceField(label=gettext_lazy("Resource group"))
    way = forms.ChoiceField(
        choices=WAYS,
        initial=ISSUE,
        label=gettext_lazy("How Berth is let in"),
        widget=forms.RadioSelect(attrs={"class": "form-check-input"}),
    )
    more_names = forms.CharField(
        required=False,
        max_length=500,
        label=gettext_lazy("Further names of the machine"),
        help_text=gettext_lazy("In the certificate that Berth issues; separated by spaces."),
    )
    ca = PemField(gettext_lazy("Authority of the engine (ca.pem)"))
    certificate = PemField(gettext_lazy("Certificate for Berth (cert.pem)"))
    key = PemField(gettext_lazy("Its key (key.pem)"))
    host_key = forms.CharField(
        required=False,
        max_length=2000,
        label=gettext_lazy("SSH host key"),
        help_text=gettext_lazy("Like “ssh-ed25519 AAAA…”. If empty, the one that the machine shows now."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    is_confirmed = forms.BooleanField(
        required=False,
        label=gettext_lazy("I know that whoever reaches a plain-text engine owns the machine"),
        widget=BOX,
    )

    def __init__(self, data: Any, *, groups: list[str]) -> None:
        super().__init__(data)
        field = self.fields["group"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in groups]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_agent(request: HttpRequest) -> HttpResponse:
    """Add a machine: at once if its engine answers, or with a certificate that it has to fetch."""
    actor = superadmin_or_404(request)
    groups = [group.name for group in visible_resource_groups(actor).order_by("-is_default", "name")]
    form = MachineForm(request.POST if request.method == "POST" else None, groups=groups)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            if form.cleaned_data["way"] == ISSUE:
                return _invited(request, *_invite(actor, form.cleaned_data))
            agent = service.add_agent(actor=actor, new=_new_agent(actor, form.cleaned_data))
            messages.success(request, _("“{name}” is there.").format(name=agent.name))
            return redirect("agent", agent.pk)
    context = {
        "form": form,
        "ssh_key": own_ssh_key().public_key,
        "invitations": [_row(each) for each in MachineInvitation.objects.filter(agent=None)],
    }
    return render(request, "agents/new_agent.html", context, status=422 if form.errors else 200)


def _new_agent(actor: Actor, values: dict[str, Any]) -> service.NewAgent:
    way = values["way"]
    pasted = PastedCertificates(values["ca"], values["certificate"], values["key"])
    return service.NewAgent(
        name=values["name"],
        address=values["address"],
        resource_group=access_resource_group(actor, values["group"]),
        certificates=pasted if way == CERTIFICATES else None,
        host_key=values["host_key"],
        is_plain_text=way == PLAIN,
        is_confirmed=values["is_confirmed"],
    )


def _invite(actor: Actor, values: dict[str, Any]) -> tuple[MachineInvitation, str]:
    return invitations.invite_machine(
        actor=actor,
        name=values["name"],
        address=values["address"],
        resource_group=access_resource_group(actor, values["group"]),
        more_names=values["more_names"].split(),
        is_confirmed=values["is_confirmed"],
    )


def _invited(request: HttpRequest, invitation: MachineInvitation, token: str) -> HttpResponse:
    """Show the line to paste on the machine; the link in it is never shown again."""
    url = invitations.script_url(token)
    context = {
        "invitation": _row(invitation),
        "line": f"curl -fsSL {url} | sudo sh",
        "is_plain": url.startswith("http:"),
        "agent": invitation.agent,
    }
    return never_cache(lambda _request: render(request, "agents/invited.html", context))(request)


@login_required
@require_GET
def invitation_state(request: HttpRequest, machine: str) -> HttpResponse:
    """Show whether an invited machine has fetched its certificate and answers: green when it does."""
    actor = superadmin_or_404(request)
    invitation = MachineInvitation.objects.filter(name=machine).first()
    agent = None if invitation else service.agent_named_or_none(actor, machine)
    if not is_fragment(request):
        return redirect("agent", agent.pk) if agent else redirect("new-agent")
    context = {"invitation": _row(invitation) if invitation else None, "agent": agent, "name": machine}
    return render(request, "agents/_invitation.html", context)


@login_required
@require_POST
def cancel_invitation(request: HttpRequest, machine_invitation_id: int) -> HttpResponse:
    """Withdraw the certificate of a machine that does not answer."""
    invitations.cancel_invitation(actor=superadmin_or_404(request), invitation_id=machine_invitation_id)
    return redirect("new-agent")


@login_required
@require_POST
def issue_again(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Issue a new certificate for a machine, and show the line to paste."""
    invitation, token = invitations.issue_again(
        actor=superadmin_or_404(request),
        agent_id=agent_id,
        is_compromised="is_compromised" in request.POST,
    )
    return _invited(request, invitation, token)


@login_required
@require_POST
def revoke(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Retire a machine and forget how it was reached."""
    agent = service.revoke_connection(actor=superadmin_or_404(request), agent_id=agent_id)
    messages.success(
        request, _("“{name}” is retired, and its certificates are worth nothing.").format(name=agent.name)
    )
    return redirect("agents")


@require_GET
@never_cache
def join_script(request: HttpRequest, code: str) -> HttpResponse:
    """Give a machine its script with certificates, once; the token is all that it needs."""
    return HttpResponse(invitations.fetch_script(code), content_type="text/x-shellscript; charset=utf-8")


def _row(invitation: MachineInvitation) -> dict[str, Any]:
    return {
        "id": invitation.pk,
        "name": invitation.name,
        "address": invitation.address,
        "is_open": invitation.is_open_at(clock.now()),
        "fetched_at": invitation.fetched_at,
        "last_error": invitation.last_error,
    }
