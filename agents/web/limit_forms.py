"""Form of a limit of a resource group."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.forms.limit_fields import SlotsField, bytes_field, cores_field
from agents.core.group_limits import AMOUNTS, LONGEST_NAME, WEEK
from agents.models import SessionType
from agents.web.group_forms import NO_AUTOFILL
from common.values.resources import CPU, MEM
from common.values.time_zones import LONGEST_ZONE, is_zone

TEXT_FIELDS = ("name", "session_types", "days", "begins", "ends", "time_zone")
DAY_NAMES = {day: WEEKDAYS_ABBR[day - 1] for day in WEEK}
_TIME = "%H:%M"


def _devices_field() -> SlotsField:
    return SlotsField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Accelerators"),
        help_text=gettext_lazy("Like “cuda=2, rocm=1”, in whole devices or shares."),
    )


def _time_field(label: Any) -> forms.TimeField:
    widget = forms.TimeInput(format=_TIME, attrs={"type": "time"})
    return forms.TimeField(required=False, input_formats=[_TIME], label=label, widget=widget)


class LimitForm(forms.Form):
    name = forms.CharField(
        max_length=LONGEST_NAME,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs=NO_AUTOFILL),
        help_text=gettext_lazy("Like “By day”. Shown to people whose sessions wait for it."),
    )
    session_types = forms.MultipleChoiceField(
        choices=[
            (SessionType.INTERACTIVE.value, gettext_lazy("Interactive sessions")),
            (SessionType.BATCH.value, gettext_lazy("Batch sessions")),
        ],
        required=False,
        label=gettext_lazy("Sessions counted"),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        help_text=gettext_lazy("None chosen: all sessions of this group."),
    )
    together_cpu = cores_field(label=gettext_lazy("CPU cores"))
    together_mem = bytes_field(label=gettext_lazy("Memory"), help_text=gettext_lazy("Like 64g or 512m."))
    together_devices = _devices_field()
    each_cpu = cores_field(label=gettext_lazy("CPU cores"))
    each_mem = bytes_field(label=gettext_lazy("Memory"), help_text=gettext_lazy("Like 64g or 512m."))
    each_devices = _devices_field()
    days = forms.TypedMultipleChoiceField(
        choices=list(DAY_NAMES.items()),
        coerce=int,
        required=False,
        label=gettext_lazy("On these days"),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        help_text=gettext_lazy(
            "None chosen: always in force. An end that is not after the beginning is on the next day."
        ),
    )
    begins = _time_field(gettext_lazy("From"))
    ends = _time_field(gettext_lazy("To"))
    time_zone = forms.CharField(
        max_length=LONGEST_ZONE,
        required=False,
        label=gettext_lazy("Time zone"),
        widget=forms.TextInput(attrs=NO_AUTOFILL),
        help_text=gettext_lazy("Time zone of the hours, with daylight saving time: Europe/Berlin, UTC."),
    )

    def __init__(self, data: Any = None, *, stored: Mapping[str, Any] | None = None) -> None:
        """`kept`: the limit to change."""
        super().__init__(data, initial={"time_zone": "UTC"} if stored is None else _initial(stored))
        if stored is None and data is None:  # typed or stored values stay
            self.fields["time_zone"].widget.attrs["data-time-zone"] = ""

    def clean_time_zone(self) -> str:
        """Check the time zone. Raises ValidationError."""
        zone: str = self.cleaned_data["time_zone"]
        if zone and not is_zone(zone):
            raise ValidationError(
                _("There is no time zone of this name. Write one such as Europe/Berlin, or UTC.")
            )
        return zone

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or self.cleaned_data
        is_readable = all(f"{key}_{slot}" in typed for key in AMOUNTS for slot in ("cpu", "mem", "devices"))
        if is_readable and not any(self._amounts(key) for key in AMOUNTS):
            sentence = _("Give a limit for all sessions together, or a limit per person.")
            self.add_error("together_cpu", sentence)
        if "days" in typed:
            self._check_hours(typed)
        return typed

    def _check_hours(self, typed: dict[str, Any]) -> None:
        missing = [name for name in ("begins", "ends", "time_zone") if name in typed and not typed[name]]
        if typed["days"]:
            for name in missing:
                self.add_error(name, _("Say it for the chosen days."))
        elif typed.get("begins") or typed.get("ends"):
            self.add_error("days", _("Choose days for these times, or leave the times empty as well."))

    def limit(self) -> dict[str, Any]:
        """Return the limit as `agents.core.group_limits` stores it. Only if the form is valid."""
        typed = self.cleaned_data
        hours = {"days": [], "begins": "", "ends": "", "time_zone": ""}
        if typed["days"]:
            times = {name: f"{typed[name]:{_TIME}}" for name in ("begins", "ends")}
            hours = {"days": typed["days"], **times, "time_zone": typed["time_zone"]}
        amounts = {key: self._amounts(key) for key in AMOUNTS}
        return {"name": typed["name"], "session_types": typed["session_types"], **amounts, **hours}

    def _amounts(self, key: str) -> dict[str, int]:
        typed = self.cleaned_data
        named = {CPU: typed[f"{key}_cpu"], MEM: typed[f"{key}_mem"]}
        given = {slot: amount for slot, amount in named.items() if amount is not None}
        return {**given, **typed[f"{key}_devices"]}


def _initial(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the initial values for a limit."""
    typed = {name: stored[name] for name in TEXT_FIELDS}
    for key in AMOUNTS:
        amounts = dict(stored[key])
        typed |= {f"{key}_cpu": amounts.pop(CPU, None), f"{key}_mem": amounts.pop(MEM, None)}
        typed[f"{key}_devices"] = amounts
    return typed
