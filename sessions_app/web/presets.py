"""Pages of resource presets: list, create, change, delete."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.forms.limit_fields import SlotsField
from accounts.web.form_errors import add_errors
from common.actors import Actor
from common.errors import BerthError, PermissionDenied
from common.pages.form_fields import UncheckedChoice, UncheckedField
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from common.values.resources import CPU, MEM, format_slots
from sessions_app.core.sizes import amount_input, preset_size
from sessions_app.core.template_rules import MAX_NAME_LENGTH
from sessions_app.models import ResourcePreset
from sessions_app.session_templates import presets
from sessions_app.session_templates.sharing import writable_ids
from sessions_app.web.sharing_choices import owner_label, place_choices, sharing_arguments

OWN_FIELDS = {CPU, MEM, "shm"}
TYPED = {"autocomplete": "off", "spellcheck": "false"}


def _amount(label: Any, help_text: Any = "", *, required: bool = True) -> UncheckedField:
    return UncheckedField(
        label=label, help_text=help_text, required=required, widget=forms.TextInput(attrs=TYPED)
    )


class PresetForm(forms.Form):
    """Form of a preset. Amounts are parsed and refused like those of a session request."""

    name = UncheckedField(
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Name on the card, like “A100, quarter”."),
        widget=forms.TextInput(attrs=TYPED | {"maxlength": MAX_NAME_LENGTH}),
    )
    place = UncheckedChoice(label=gettext_lazy("Visibility"))
    cpu = _amount(gettext_lazy("CPU cores"))
    mem = _amount(gettext_lazy("Memory"), gettext_lazy("Like 64g or 512m."))
    devices = SlotsField(
        has_parts=True,
        required=False,
        label=gettext_lazy("Accelerators"),
        help_text=gettext_lazy("Like “cuda=2”, “cuda=0.25” or “cuda.mem=20g, cuda.cores=30”."),
        widget=forms.TextInput(attrs=TYPED),
    )
    shm = _amount(
        gettext_lazy("Shared memory"),
        gettext_lazy("Part of the memory. Empty: the default of sessions."),
        required=False,
    )

    def __init__(self, data: Any = None, *, actor: Actor, preset: ResourcePreset | None = None) -> None:
        super().__init__(data, initial=_initial_values(preset) if preset else None)
        if preset is None:
            self.fields["place"].choices = place_choices(actor)  # type: ignore[attr-defined]
        else:
            del self.fields["place"]

    def clean_devices(self) -> dict[str, int]:
        """Raise ValidationError for slots that have fields of their own; their value would be lost."""
        devices: dict[str, int] = self.cleaned_data["devices"]
        if others := sorted(OWN_FIELDS & devices.keys()):
            sentence = _("{names} has a field of its own.").format(names=", ".join(others))
            raise forms.ValidationError(sentence)
        return devices

    def resources(self) -> dict[str, Any]:
        """Return the resources in the format of a session request; only for a valid form."""
        typed = self.cleaned_data
        devices = {slot: amount_input(slot, amount) for slot, amount in typed["devices"].items()}
        asked = {**devices, CPU: typed["cpu"], MEM: typed["mem"]}
        return asked | ({"shm": typed["shm"]} if typed["shm"] else {})


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="session-presets")
def preset_list(request: HttpRequest) -> HttpResponse:
    """List the presets; POST creates one. At most 8 queries besides those of the page frame."""
    actor = actor_of(request)
    if request.method != "POST":
        return _page(request, actor, PresetForm(actor=actor))
    form = PresetForm(request.POST, actor=actor)
    if form.is_valid():
        try:
            made = presets.create_preset(
                actor=actor,
                name=form.cleaned_data["name"],
                resources=form.resources(),
                **sharing_arguments(form.cleaned_data["place"]),
            )
        except BerthError as refusal:
            _mark_errors(form, refusal)
        else:
            messages.success(request, _("“{name}” is offered from now on.").format(name=made.name))
            return redirect("session-presets")
    return _page(request, actor, form, status=422)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def preset_page(request: HttpRequest, preset_id: int) -> HttpResponse:
    """Show one preset; POST changes it."""
    actor = actor_of(request)
    preset = presets.access_preset(actor, preset_id)
    if preset.pk not in writable_ids(actor, [preset]):
        raise PermissionDenied(
            _("You may not change this preset."), hint=_("Ask an administrator of the project or domain.")
        )
    form = PresetForm(request.POST if request.method == "POST" else None, actor=actor, preset=preset)
    if form.is_valid():
        changes = {"name": form.cleaned_data["name"], "resources": form.resources()}
        try:
            presets.change_preset(actor=actor, preset_id=preset_id, changes=changes)
        except BerthError as refusal:
            _mark_errors(form, refusal)
        else:
            messages.success(request, _("The preset is changed. Sessions keep what they have."))
            return redirect("session-presets")
    context = {"preset": preset, "form": form, "place": owner_label(preset)}
    return render(request, "sessions_app/preset.html", context, status=422 if form.is_bound else 200)


@login_required
@require_POST
def delete_preset(request: HttpRequest, preset_id: int) -> HttpResponse:
    presets.delete_preset(actor=actor_of(request), preset_id=preset_id)
    messages.success(request, _("The preset is deleted."))
    return redirect("session-presets")


def _mark_errors(form: PresetForm, refusal: BerthError) -> None:
    """Show an error at the form's fields; re-raises PermissionDenied."""
    if isinstance(refusal, PermissionDenied):
        raise refusal
    refusal.fields = {_form_field_of(path): sentences for path, sentences in refusal.fields.items()}
    add_errors(form, refusal)


def _form_field_of(path: str) -> str:
    """Return the form field for a path of the request: "resources.cuda" belongs to "devices"."""
    room, _dot, name = path.partition(".")
    if room != "resources":
        return "place" if room == "sharing" else room
    return name if name in (CPU, MEM, "shm") else "devices"


def _initial_values(preset: ResourcePreset) -> dict[str, Any]:
    size = preset_size(preset.pk, preset.name, preset.slots, preset.shm_bytes)
    devices = ", ".join(f"{slot}={amount}" for slot, amount in size.devices.items())
    return {"name": size.title, "cpu": size.cpu, "mem": size.mem, "devices": devices, "shm": size.shm}


def _page(request: HttpRequest, actor: Actor, form: PresetForm, *, status: int = 200) -> HttpResponse:
    found = sorted(presets.visible_presets(actor), key=lambda each: (each.sharing, presets.size_order(each)))
    writable = writable_ids(actor, found)
    rows = [
        {
            "preset": each,
            "place": owner_label(each),
            "slots": format_slots(each.amounts),
            "can_write": each.pk in writable,
        }
        for each in found
    ]
    return render(request, "sessions_app/presets.html", {"rows": rows, "form": form}, status=status)
