"""Pages of accelerator vendors: what is verified of each, and own ones by their device files."""

from collections.abc import Mapping
from itertools import compress
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.web.form_errors import errors_in_form
from agents.accelerators.device_files import CAPABILITIES, MAX_MEM_BYTES, DeviceFileVendor
from agents.vendors import service
from agents.vendors.selectors import VendorEntry, access_vendor_file, present_vendors, vendor_entries
from agents.web.groups import superadmin_or_404
from common.errors import BerthError
from common.rest.idempotency import submit_once
from common.values.resources import format_bytes, parse_bytes

VERIFIED = {
    "none": gettext_noop("Not verified"),
    "fixture": gettext_noop("Recorded answers"),
    "hardware": gettext_noop("On hardware"),
}
LEVELS = {
    "hardware": gettext_noop("hardware"),
    "driver": gettext_noop("driver"),
    "server": gettext_noop("each process"),
    "cooperative": gettext_noop("can be stepped around"),
    "none": gettext_noop("not limited"),
}
MODES = {
    "mig": "MIG",
    "memory": gettext_noop("memory limit"),
    "mps": "MPS",
    "hook": gettext_noop("hook library"),
    "slice": gettext_noop("time slices"),
    "cpx": "CPX",
}
AREA = {"rows": 3, "spellcheck": "false", "autocomplete": "off", "class": "form-control code"}


class LinesField(forms.CharField):
    """One value per line, as a tuple."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=10_000, widget=forms.Textarea(attrs=AREA), **options)

    def clean(self, value: Any) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(line.strip() for line in super().clean(value).splitlines() if line.strip())

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, tuple | list) else value


class VariablesField(LinesField):
    """One NAME=value per line, as a mapping."""

    def clean(self, value: Any) -> dict[str, str]:  # type: ignore[override]
        pairs = [line.partition("=") for line in super().clean(value)]
        if wrong := next((name for name, equals, _value in pairs if not equals), None):
            raise forms.ValidationError(_("“{line}” is not NAME=value.").format(line=wrong))
        return {name.strip(): text.strip() for name, _equals, text in pairs}

    def prepare_value(self, value: Any) -> Any:
        lines = (
            tuple(f"{name}={text}" for name, text in value.items()) if isinstance(value, Mapping) else value
        )
        return super().prepare_value(lines)


class MemoryField(forms.CharField):
    """Memory like 80g, in bytes; empty: 0."""

    def clean(self, value: Any) -> int:  # type: ignore[override]
        typed = super().clean(value)
        try:
            return parse_bytes(typed, MAX_MEM_BYTES) if typed else 0
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def prepare_value(self, value: Any) -> Any:
        return (format_bytes(value) if value else "") if isinstance(value, int) else value


class VendorForm(forms.Form):
    """Fields of `DeviceFileVendor`, which checks them."""

    name = forms.CharField(
        max_length=32,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Also the resource that sessions request: small letters, digits, dashes."),
    )
    title = forms.CharField(max_length=100, label=gettext_lazy("Title"))
    model = forms.CharField(
        max_length=100,
        label=gettext_lazy("Model"),
        help_text=gettext_lazy("Shown on the cards of the launcher."),
    )
    mem_bytes = MemoryField(
        required=False,
        max_length=12,
        label=gettext_lazy("Memory of a device"),
        help_text=gettext_lazy("Like 32g; empty: unknown."),
    )
    device = forms.CharField(
        max_length=200,
        label=gettext_lazy("Device file"),
        help_text=gettext_lazy(
            "Like /dev/card{n}, where {n} is the number; without {n}, one device per machine."
        ),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    also = LinesField(
        label=gettext_lazy("Further files"),
        help_text=gettext_lazy(
            "One per line: of each device (with {n}) or of all. An ending * is any end; a ? allows absence."
        ),
    )
    binds = LinesField(
        label=gettext_lazy("Files of the machine"),
        help_text=gettext_lazy("Below /opt or /usr, one per line; sessions see them read-only."),
    )
    variables = VariablesField(
        label=gettext_lazy("Environment variables"),
        help_text=gettext_lazy("One NAME=value per line; {n*} is the numbers of all devices of the session."),
    )
    capabilities = forms.MultipleChoiceField(
        required=False,
        choices=[(name, name) for name in CAPABILITIES],
        label=gettext_lazy("Capabilities"),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )
    has_groups = forms.BooleanField(
        required=False,
        label=gettext_lazy("Programs join the groups that own the files"),
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )
    locks_memory = forms.BooleanField(
        required=False,
        label=gettext_lazy("Locked memory is unlimited"),
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )
    takes_several = forms.BooleanField(
        required=False,
        label=gettext_lazy("The driver takes several programs at once"),
        help_text=gettext_lazy(
            "Sessions may then get parts of a device, by time slicing: nothing is limited."
        ),
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )

    def values(self) -> dict[str, Any]:
        return {**self.cleaned_data, "capabilities": tuple(self.cleaned_data["capabilities"])}


@login_required
@require_safe
def vendor_list(request: HttpRequest) -> HttpResponse:
    """List all vendors with what is verified of their descriptions: own ones and those of present devices
    apart.
    """
    entries = vendor_entries(superadmin_or_404(request))
    names = present_vendors()
    is_here = [bool(entry.id) or entry.description.name in names for entry in entries]
    rows = [_row(entry) for entry in entries]
    context = {
        "here": list(compress(rows, is_here)),
        "others": [row for row, here in zip(rows, is_here, strict=True) if not here],
    }
    return render(request, "agents/vendors.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="vendors")
def new_vendor(request: HttpRequest) -> HttpResponse:
    """Add an own vendor."""
    actor = superadmin_or_404(request)
    form = VendorForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            service.create_vendor_file(actor=actor, form=DeviceFileVendor(**form.values()))
            messages.success(request, _("Machines are searched for these devices from their next look."))
            return redirect("vendors")
    return render(request, "agents/vendor.html", {"form": form}, status=422 if form.errors else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def vendor_page(request: HttpRequest, vendor_id: int) -> HttpResponse:
    """Show or change an own vendor, but not its name."""
    actor = superadmin_or_404(request)
    row = access_vendor_file(actor, vendor_id)
    form = VendorForm(request.POST if request.method == "POST" else None, initial=row.form)
    form.fields["name"].disabled = True
    if form.is_valid():
        with errors_in_form(form, BerthError):
            service.change_vendor_file(actor=actor, vendor_id=vendor_id, changes=form.values())
            messages.success(request, _("The vendor is changed. Sessions keep the devices that they have."))
            return redirect("vendors")
    context = {"form": form, "vendor": row}
    return render(request, "agents/vendor.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def delete_vendor(request: HttpRequest, vendor_id: int) -> HttpResponse:
    """Delete an own vendor."""
    service.delete_vendor_file(actor=superadmin_or_404(request), vendor_id=vendor_id)
    messages.success(request, _("The vendor is deleted. Sessions keep the devices that they have."))
    return redirect("vendors")


def _row(entry: VendorEntry) -> dict[str, Any]:
    description = entry.description
    parts = {mode: each.level for mode, each in description.sharing.items()}
    return {
        "id": entry.id,
        "title": description.title,
        "slot": description.slot,
        "verified": description.verified.by,
        "verified_title": _(VERIFIED[description.verified.by]),
        "note": description.verified.note,
        "is_measured": description.is_measured,
        "parts": [(_(MODES[mode]), _(LEVELS[level])) for mode, level in parts.items()],
    }
