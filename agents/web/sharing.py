"""Pages of the rules by which accelerators are shared."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.selectors import may_do_everything
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import require_global_overseer
from agents.capacity.device_inventory import device_models
from agents.core.isolation import OFFERED, Isolation
from agents.core.isolation import SharingMode as Mode
from agents.models import MODEL_LENGTH, ResourceGroup, SharingMode, SharingRule
from agents.models.sharing import REFERENCE_LENGTH
from agents.selectors import access_group
from agents.sharing import service
from agents.sharing.selectors import access_sharing_rule, modes_for
from agents.web.groups import superadmin_or_404
from common.errors import BerthError
from common.rest.idempotency import submit_once
from common.values.resources import MILLI

LEAST, MOST = 0.001, 0.999


class SharingRuleForm(forms.Form):
    """One rule; `smallest_share` is a fraction of a device."""

    group = forms.ChoiceField(label=gettext_lazy("Resource group"))
    model = forms.CharField(
        required=False,
        max_length=MODEL_LENGTH,
        label=gettext_lazy("Model"),
        help_text=gettext_lazy(
            "As machines report it, also one that is still to come. Empty: all models without a rule of their own."
        ),
        widget=forms.TextInput(attrs={"list": "device-models", "autocomplete": "off", "spellcheck": "false"}),
    )
    mode = forms.ChoiceField(
        choices=SharingMode.choices, initial=SharingMode.SLICE.value, label=gettext_lazy("Mode")
    )
    smallest_share = forms.DecimalField(
        initial="0.1",
        min_value=LEAST,
        max_value=MOST,
        max_digits=4,
        decimal_places=3,
        label=gettext_lazy("Smallest part"),
        help_text=gettext_lazy("Least part of a device that a session may request, like 0.1."),
    )
    hook_image = forms.CharField(
        required=False,
        max_length=REFERENCE_LENGTH,
        label=gettext_lazy("Image of the hook library"),
        help_text=gettext_lazy("Image that contains the library; for the mode “CUDA hook library” only."),
    )
    mig_on_demand = forms.BooleanField(
        required=False,
        label=gettext_lazy("MIG on demand"),
        help_text=gettext_lazy("Berth may split an empty device when a session asks for a MIG profile."),
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )

    def __init__(self, *args: Any, rule: SharingRule | None = None, **options: Any) -> None:
        if rule is not None:
            options["initial"] = {
                "model": rule.model,
                "mode": rule.mode,
                "smallest_share": f"{rule.smallest_share / MILLI:g}",
                "hook_image": rule.hook_image,
                "mig_on_demand": rule.mig_on_demand,
            }
        super().__init__(*args, **options)
        modes = modes_for(rule.model, group=rule.group) | {rule.mode} if rule is not None else modes_for()
        usual = [each for each in SharingMode.choices if each[0] in modes]
        others = [each for each in SharingMode.choices if each[0] not in modes]
        elsewhere = [(_("For devices of other vendors"), others)] if others else []
        self.fields["mode"].choices = [*usual, *elsewhere]  # type: ignore[attr-defined]
        self.fields["model"].widget.attrs["placeholder"] = _("All models")
        self.model_names = sorted({model.model for model in device_models()} - {""})
        if rule is not None:
            del self.fields["group"]
        else:
            groups = ResourceGroup.objects.present().order_by("-is_default", "name")
            self.fields["group"].choices = [(str(group.pk), group.name) for group in groups]  # type: ignore[attr-defined]

    def columns(self) -> dict[str, Any]:
        """Return the values of the rule's columns."""
        values = {name: value for name, value in self.cleaned_data.items() if name != "group"}
        return {**values, "smallest_share": int(values["smallest_share"] * MILLI)}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="sharing-rules")
def rule_list(request: HttpRequest) -> HttpResponse:
    """List the rules of all groups; POST adds one."""
    actor = require_global_overseer(request) if request.method != "POST" else superadmin_or_404(request)
    form = SharingRuleForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            service.create_sharing_rule(
                actor=actor, group_id=int(form.cleaned_data["group"]), **form.columns()
            )
            messages.success(request, _("The rule applies to sessions that start from now on."))
            return redirect("sharing-rules")
    rules = SharingRule.objects.filter(group__in=ResourceGroup.objects.present()).select_related("group")
    context = {
        "rules": [
            (rule, f"{rule.smallest_share / MILLI:g}") for rule in rules.order_by("group__name", "model")
        ],
        "form": form if may_do_everything(actor) else None,
        "modes": _modes(),
    }
    return render(request, "agents/sharing_rules.html", context, status=422 if form.errors else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def rule_page(request: HttpRequest, group_id: int, rule_id: int) -> HttpResponse:
    """Show or change one rule."""
    actor = superadmin_or_404(request)
    group = access_group(actor, group_id)
    rule = access_sharing_rule(group, rule_id)
    form = SharingRuleForm(request.POST if request.method == "POST" else None, rule=rule)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            service.change_sharing_rule(
                actor=actor, group_id=group_id, rule_id=rule_id, changes=form.columns()
            )
            messages.success(request, _("The rule is changed. Sessions that run keep what they got."))
            return redirect("sharing-rules")
    context = {"group": group, "rule": rule, "form": form, "modes": _modes()}
    return render(request, "agents/sharing_rule.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def delete_rule(request: HttpRequest, group_id: int, rule_id: int) -> HttpResponse:
    """Delete one rule."""
    service.delete_sharing_rule(actor=superadmin_or_404(request), group_id=group_id, rule_id=rule_id)
    messages.success(request, _("The rule is deleted. Sessions that run keep what they got."))
    return redirect("sharing-rules")


def _modes() -> list[tuple[str, str]]:
    """Return each mode in which parts are given, and MIG, with what it really limits."""
    mig = ("MIG", Isolation.HARDWARE.sentence)
    return [
        (str(mode.label), OFFERED[Mode(mode.value)].sentence)
        for mode in SharingMode
        if mode != SharingMode.FORBIDDEN
    ] + [mig]
