"""Forms to reserve agents and to change a reservation."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.limits import Level
from agents.models import REASON_LENGTH, Agent
from agents.reservations.selectors import CalendarEntry
from agents.reservations.service import MOST_AGENTS
from agents.web.group_forms import LONGEST_NAME
from common.values.text import check_text, quoted
from common.values.time_zones import zone_or_utc

_NO_AUTOFILL = {"autocomplete": "off", "spellcheck": "false"}
_CONTROL = {"type": "datetime-local"}
NOBODY = "nobody"
MOST_BOXES = 100


class NamesField(forms.CharField):
    """Names of agents separated by lines or commas; bounds as in REST."""

    widget = forms.Textarea(attrs={**_NO_AUTOFILL, "rows": 5})

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) or value is None else "\n".join(value)

    def to_python(self, value: Any) -> Any:
        return (value or "").replace(",", " ").split()

    def run_validators(self, value: Any) -> None:
        """Check number and length of the names. Raises ValidationError."""
        if len(value) > MOST_AGENTS:
            sentence = _("At most {most} machines; these are {count}.")
            raise ValidationError(sentence.format(most=f"{MOST_AGENTS:,}", count=f"{len(value):,}"))
        for name in value:
            try:
                check_text(name, max_length=LONGEST_NAME)
            except ValueError as error:
                raise ValidationError(f"{quoted(name)}: {error}") from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        return set(initial or ()) != set(self.to_python(data))


def parse_instant(typed: str, zone_name: str) -> datetime | None:
    """Return the instant that a date and time control has, in this time zone; None if it is empty. Raises
    ValidationError.
    """
    if not typed:
        return None
    try:
        instant = datetime.fromisoformat(typed)
        return instant.replace(tzinfo=instant.tzinfo or zone_or_utc(zone_name)).astimezone(UTC)
    except (ValueError, OverflowError) as error:  # in UTC before year 1, or after 9999
        raise ValidationError(_("Give a date and a time.")) from error


class MaintenanceForm(forms.Form):
    ends_at = forms.CharField(
        required=False,
        label=gettext_lazy("Until"),
        widget=forms.DateTimeInput(attrs=_CONTROL),
        help_text=gettext_lazy(
            "In your time zone; without scripts in UTC. The machine takes sessions again then, as soon as it "
            "answers. Empty: until somebody resumes it."
        ),
    )
    because = forms.CharField(
        max_length=REASON_LENGTH,
        required=False,
        label=gettext_lazy("Reason"),
        widget=forms.TextInput(attrs=_NO_AUTOFILL),
        help_text=gettext_lazy("People whose sessions wait for the machine read it."),
    )
    time_zone = forms.CharField(required=False, widget=forms.HiddenInput(attrs={"data-time-zone": ""}))

    def __init__(self, data: Any, agent: Agent) -> None:
        """The form begins with the present end and reason of the agent's maintenance."""
        ends_at = agent.maintenance_ends_at
        typed = _control_value(ends_at, UTC) if ends_at else ""
        super().__init__(data, initial={"ends_at": typed, "because": agent.maintenance_reason})
        if ends_at and data is None:  # typed values are in the time zone of the browser
            self.fields["ends_at"].widget.attrs["data-instant"] = ends_at.isoformat()

    def clean_ends_at(self) -> datetime | None:
        return parse_instant(self.cleaned_data["ends_at"], self.data.get("time_zone", ""))


class ReservationForm(forms.Form):
    name = forms.CharField(
        max_length=64,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs=_NO_AUTOFILL),
        help_text=gettext_lazy("A course, a deadline, maintenance."),
    )
    reason = forms.CharField(max_length=500, required=False, label=gettext_lazy("Reason"))
    starts_at = forms.CharField(
        required=False,
        label=gettext_lazy("From"),
        widget=forms.DateTimeInput(attrs=_CONTROL),
        help_text=gettext_lazy("In your time zone; without scripts in UTC. Empty: from now on."),
    )
    ends_at = forms.CharField(label=gettext_lazy("To"), widget=forms.DateTimeInput(attrs=_CONTROL))
    time_zone = forms.CharField(required=False, widget=forms.HiddenInput(attrs={"data-time-zone": ""}))
    level = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("Choose…")),
            (NOBODY, gettext_lazy("Nobody: maintenance")),
            (Level.DOMAIN.value, gettext_lazy("A domain")),
            (Level.PROJECT.value, gettext_lazy("A project")),
            (Level.USER.value, gettext_lazy("A person")),
        ],
        label=gettext_lazy("For"),
    )
    grantee = forms.CharField(
        max_length=254,
        required=False,
        label=gettext_lazy("Name or e-mail"),
        widget=forms.TextInput(attrs=_NO_AUTOFILL),
        help_text=gettext_lazy("Write domain/project if several domains have a project of that name."),
    )
    is_all = forms.BooleanField(required=False, label=gettext_lazy("All machines of the group"))
    agents = forms.MultipleChoiceField(
        required=False, label=gettext_lazy("Machines"), widget=forms.CheckboxSelectMultiple
    )

    def __init__(
        self, data: Any = None, *, machines: Iterable[str] = (), initial: dict[str, Any] | None = None
    ) -> None:
        """`machines`: names of all agents of the group."""
        super().__init__(data, initial=initial)
        self.machines = list(machines)
        if len(self.machines) > MOST_BOXES:
            hint = _("Names, one per line or separated by commas.")
            self.fields["agents"] = NamesField(required=False, label=_("Which"), help_text=hint)
        else:
            self.fields["agents"].choices = [(name, name) for name in self.machines]  # type: ignore[attr-defined]

    def clean_starts_at(self) -> datetime | None:
        return self._instant("starts_at")

    def clean_ends_at(self) -> datetime | None:
        return self._instant("ends_at")

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or self.cleaned_data
        if typed.get("level", NOBODY) != NOBODY and not typed.get("grantee"):
            self.add_error("grantee", _("Say for whom."))
        if typed.get("is_all"):
            typed["agents"] = self.machines
        return typed

    def _instant(self, field: str) -> datetime | None:
        """Parse an instant in the typed time zone. Raises ValidationError."""
        return parse_instant(self.cleaned_data[field], self.data.get("time_zone", ""))


class ReservationChangeForm(ReservationForm):
    """Form to change a reservation: its grantee, and a past start, cannot change."""

    level = None  # type: ignore[assignment]
    grantee = None  # type: ignore[assignment]

    def __init__(self, data: Any = None, *, machines: Iterable[str], entry: CalendarEntry) -> None:
        self._stored = instants = {"starts_at": entry.starts_at, "ends_at": entry.ends_at}
        typed = {name: _control_value(instant, UTC) for name, instant in instants.items()}
        initial = {"name": entry.name, "reason": entry.reason, "agents": entry.agents, **typed}
        super().__init__(data, machines=machines, initial=initial)
        if entry.is_open:
            del self.fields["starts_at"]
        else:
            self.fields["starts_at"].required = True
            self.fields["starts_at"].help_text = _("In your time zone; without scripts in UTC.")
        if data is None:  # typed values are in the time zone of the browser
            for name in set(instants) & set(self.fields):
                self.fields[name].widget.attrs["data-instant"] = instants[name].isoformat()

    def _instant(self, field: str) -> datetime | None:
        """Return the stored instant if unchanged: the control has no seconds, and repeated hours
        are ambiguous.
        """
        stored, zone = self._stored[field], zone_or_utc(self.data.get("time_zone", ""))
        return stored if self.cleaned_data[field] == _control_value(stored, zone) else super()._instant(field)


def _control_value(instant: datetime, zone: tzinfo) -> str:
    """Format for a date and time control."""
    return f"{instant.astimezone(zone):%Y-%m-%dT%H:%M}"
