"""Page of the health rules of accelerators."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from agents.accelerators.description import shipped_vendors
from agents.accelerators.health import MOST_XID, OTHER_XIDS, XID_RULE
from agents.models import HealthAction
from agents.vendors.health_rules import RuleEntry, change_health_rule, rule_entries
from agents.vendors.selectors import present_vendors
from agents.web.groups import superadmin_or_404


class RulesForm(forms.Form):
    """Actions of the rules of one vendor, and an event (Xid) to add where its driver tells them."""

    xid = forms.IntegerField(
        required=False, min_value=0, max_value=MOST_XID, label=gettext_lazy("Another error (Xid)")
    )
    xid_action = forms.ChoiceField(
        required=False, choices=HealthAction.choices, label=gettext_lazy("What it does")
    )

    def __init__(self, entries: Sequence[RuleEntry], data: Any = None) -> None:
        super().__init__(data, auto_id=f"{entries[0].vendor}-%s")
        self.entries = entries
        self.tells_events = any(entry.rule == OTHER_XIDS for entry in entries)
        if not self.tells_events:
            del self.fields["xid"], self.fields["xid_action"]
        for entry in entries:
            self.fields[entry.rule] = forms.ChoiceField(
                label=entry.title, choices=_choices(entry), initial=entry.action
            )

    @property
    def changed_count(self) -> int:
        """Return the number of rules with another action than the default."""
        return sum(entry.is_changed for entry in self.entries)

    @property
    def rows(self) -> list[tuple[RuleEntry, forms.BoundField]]:
        return [(entry, self[entry.rule]) for entry in self.entries]

    def actions(self) -> dict[str, str]:
        """Return {name of a rule: its action} of the rules that the form changes."""
        chosen = {entry.rule: self.cleaned_data[entry.rule] for entry in self.entries}
        if self.cleaned_data.get("xid") is not None:
            chosen[f"{XID_RULE}{self.cleaned_data['xid']}"] = self.cleaned_data["xid_action"] or "quarantine"
        before = {entry.rule: entry.action for entry in self.entries}
        return {rule: action for rule, action in chosen.items() if action != before.get(rule)}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def health_rules(request: HttpRequest) -> HttpResponse:
    """Show the rules of each vendor, those with devices here first; POST changes those of one."""
    actor = superadmin_or_404(request)
    entries = rule_entries(actor)
    posted = request.POST.get("vendor", "") if request.method == "POST" else ""
    forms_by_vendor = {
        name: RulesForm(own, request.POST if name == posted else None) for name, own in entries.items()
    }
    form = forms_by_vendor.get(posted)
    if form is not None and form.is_valid():
        with transaction.atomic():
            for rule, action in form.actions().items():
                change_health_rule(actor=actor, vendor=posted, rule=rule, action=action)
        messages.success(request, _("The rules are changed. Devices are judged by them at their next look."))
        return redirect("health-rules")
    titles = {vendor.name: vendor.title for vendor in shipped_vendors()}
    present = present_vendors()
    order = sorted(forms_by_vendor, key=lambda name: name not in present)
    context = {"vendors": [(name, titles[name], forms_by_vendor[name]) for name in order]}
    status = 422 if request.method == "POST" else 200
    return render(request, "agents/health_rules.html", context, status=status)


def _choices(entry: RuleEntry) -> list[tuple[str, str]]:
    usual = _("{action} (default)")
    return [
        (value, usual.format(action=label) if value == entry.default else str(label))
        for value, label in HealthAction.choices
    ]
