"""Page of a project's membership rules."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods

from accounts.core.authorization import Action
from accounts.core.membership_rules import MemberRule, RuleKind
from accounts.models import Project
from accounts.selectors import access_project
from accounts.tenancy import membership_sync
from accounts.tenancy.membership_rules import group_providers, read_rules
from accounts.tenancy.membership_sync import RuleImpact
from accounts.web.form_errors import errors_in_form, form_digest
from common.errors import InvalidInput
from common.pages.form_fields import UncheckedField
from common.rest.actor import actor_of

_LINES = {"rows": "3", "spellcheck": "false", "autocomplete": "off"}


class RulesForm(forms.Form):
    everybody = forms.BooleanField(required=False, label=gettext_lazy("Everybody of the domain"))
    mail = UncheckedField(
        required=False,
        label=gettext_lazy("E-mail addresses that end with"),
        help_text=gettext_lazy("One per line, such as uni.example. Unverified addresses do not count."),
        widget=forms.Textarea(attrs={**_LINES, "placeholder": "uni.example"}),
    )
    group = UncheckedField(
        required=False,
        label=gettext_lazy("Groups of identity providers"),
        help_text=gettext_lazy(
            "One per line, as provider:group. The groups of a person are updated when they sign "
            "in by the provider."
        ),
        widget=forms.Textarea(attrs={**_LINES, "placeholder": "campus:staff"}),
    )

    def rules(self) -> list[tuple[str, str]]:
        """Return the input as (kind, value) pairs."""
        typed = self.cleaned_data
        lines = [(kind, line) for kind in ("mail", "group") for line in typed[kind].splitlines()]
        everybody = [(RuleKind.ALL.value, "")] if typed["everybody"] else []
        return [*everybody, *((kind, line.strip()) for kind, line in lines if line.strip())]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def project_rules(request: HttpRequest, project_id: int) -> HttpResponse:
    """Show the membership rules; POST previews affected users, and saves once confirmed."""
    actor = actor_of(request)
    project = access_project(actor, project_id, Action.EDIT)
    if request.method != "POST":
        return _page(request, project, RulesForm(initial=_rules_initial(read_rules(project))))
    form = RulesForm(request.POST)
    form.is_valid()
    with errors_in_form(form, InvalidInput):
        wanted = membership_sync.parse_rules(form.rules())
        impact = membership_sync.rules_impact(project, wanted)
        sure = form_digest({"rules": wanted})
        if not impact.is_none and request.POST.get("sure") != sure:
            return _page(request, project, form, impact=_impact_words(impact), sure=sure)
        membership_sync.set_member_rules(actor=actor, project_id=project_id, rules=form.rules())
        messages.success(
            request, _("The rules hold. Everybody whom they concern joins or leaves within a minute.")
        )
        return redirect("project", project_id)
    return _page(request, project, form, status=422)


def rule_sentences(rules: tuple[MemberRule, ...]) -> list[str]:
    """Return one sentence per rule."""
    sentences = {
        RuleKind.ALL: _("Everybody of the domain"),
        RuleKind.MAIL: _("Addresses that end with @{value}"),
        RuleKind.GROUP: _("The group {value}"),
    }
    return [sentences[rule.kind].format(value=rule.value) for rule in rules]


def _rules_initial(rules: tuple[MemberRule, ...]) -> dict[str, Any]:
    lines = {
        kind.value: "\n".join(rule.value for rule in rules if rule.kind is kind)
        for kind in (RuleKind.MAIL, RuleKind.GROUP)
    }
    return {"everybody": any(rule.kind is RuleKind.ALL for rule in rules), **lines}


def _impact_words(impact: RuleImpact) -> list[dict[str, Any]]:
    """Return the impact for display as [{"title", "people", "more"}]."""
    joining = ngettext("{count} person joins:", "{count} people join:", impact.joining_count)
    leaving = ngettext("{count} person leaves:", "{count} people leave:", impact.leaving_count)
    parts = ((joining, impact.joining_count, impact.joining), (leaving, impact.leaving_count, impact.leaving))
    return [
        {"title": title.format(count=count), "people": people, "more": count - len(people)}
        for title, count, people in parts
        if count
    ]


def _page(
    request: HttpRequest, project: Project, form: RulesForm, *, status: int = 200, **context: Any
) -> HttpResponse:
    providers = sorted(group_providers())
    context |= {"project": project, "form": form, "providers": ", ".join(providers)}
    return render(request, "accounts/project_rules.html", context, status=status)
