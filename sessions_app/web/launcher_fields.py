"""Fields of the launcher's form."""

from collections.abc import Callable
from typing import Any, TypeVar

from django import forms
from django.utils.translation import gettext_lazy

from accounts.core.limits import HIGHEST_PRIORITY
from common.pages.form_fields import (
    RestrictedSelect,
    UncheckedChoice,
    UncheckedField,
    UncheckedMultipleChoice,
)
from common.values.durations import duration_input, parse_duration
from sessions_app.core.array_spec import LONGEST_SPEC
from sessions_app.core.callbacks import MAX_URL_LENGTH
from sessions_app.core.cluster import MAX_CLUSTER_SIZE, read_role_line, role_line
from sessions_app.core.placement import Gang, PlacementRule
from sessions_app.core.queue_options import LOWEST_PRIORITY, MAX_RETRIES, MAX_SESSION_NAME, When
from sessions_app.core.request import MAX_REFERENCE_LENGTH
from sessions_app.models import SessionType
from sessions_app.web.environment_text import format_variables, parse_variables

T = TypeVar("T")
WHOLE, PART = "whole", "part"


class SwitchField(UncheckedChoice):
    """Choice between two values that stand for True (`on`) and False (`off`)."""

    def __init__(self, *, on: str, off: str, **options: Any) -> None:
        super().__init__(required=False, **options)
        self.on, self.off = on, off

    def clean(self, value: Any) -> bool:  # type: ignore[override]
        return super().clean(value) != self.off

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str | None) else self.on if value else self.off


class DurationField(UncheckedField):
    """Duration like "30m", in seconds; None if empty."""

    def clean(self, value: Any) -> int | None:  # type: ignore[override]
        typed = super().clean(value).strip()
        return _checked(parse_duration, typed) if typed else None

    def prepare_value(self, value: Any) -> Any:
        return duration_input(value) if isinstance(value, int) else value


class VariablesField(UncheckedField):
    """Variables as NAME=value lines."""

    def clean(self, value: Any) -> dict[str, str]:  # type: ignore[override]
        return _checked(parse_variables, super().clean(value))

    def prepare_value(self, value: Any) -> Any:
        return format_variables(value) if isinstance(value, dict) else value


class RolesField(UncheckedField):
    """Roles of containers, one per line."""

    def clean(self, value: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        lines = [line.strip() for line in super().clean(value).splitlines()]
        return [_checked(read_role_line, line) for line in lines if line]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(role_line, value)) if isinstance(value, list) else value


def _checked(parse: Callable[[str], T], typed: str) -> T:
    try:
        return parse(typed)
    except ValueError as error:
        raise forms.ValidationError(str(error)) from error


class LauncherFields(forms.Form):
    """Fields named like those of the REST body, so that errors map to them."""

    type = UncheckedChoice(
        choices=SessionType.choices, initial="interactive", required=False, label=gettext_lazy("Type")
    )
    name = UncheckedField(
        max_length=64,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, dots, dashes and underscores."),
    )
    project = UncheckedChoice(label=gettext_lazy("Project"))
    image = UncheckedChoice(label=gettext_lazy("Environment"), widget=RestrictedSelect)
    resource_group = UncheckedChoice(
        required=False,
        label=gettext_lazy("Resource group"),
        help_text=gettext_lazy("Group of machines that runs the session."),
    )
    size = UncheckedChoice(required=False, label=gettext_lazy("Size"))
    cpu = UncheckedField(
        initial="1", max_length=12, label=gettext_lazy("CPU cores"), help_text=gettext_lazy("Like 2 or 0.5.")
    )
    mem = UncheckedField(
        initial="2g", max_length=12, label=gettext_lazy("Memory"), help_text=gettext_lazy("Like 512m or 4g.")
    )
    shm = UncheckedField(
        initial="64m",
        max_length=12,
        label=gettext_lazy("Shared memory"),
        required=False,
        help_text=gettext_lazy("Part of the memory."),
    )
    device = UncheckedChoice(required=False, label=gettext_lazy("Accelerators"))
    device_as = UncheckedChoice(
        required=False,
        initial=WHOLE,
        label=gettext_lazy("Whole or in part"),
        choices=[(WHOLE, gettext_lazy("Whole devices")), (PART, gettext_lazy("A part of one"))],
        widget=forms.RadioSelect,
    )
    device_count = UncheckedField(
        required=False, initial="1", max_length=12, label=gettext_lazy("Number of devices")
    )
    part_mem = UncheckedField(
        required=False,
        max_length=12,
        label=gettext_lazy("Device memory"),
        help_text=gettext_lazy("Like 20g."),
    )
    part_cores = UncheckedField(
        required=False,
        max_length=12,
        label=gettext_lazy("Computing, in percent"),
        help_text=gettext_lazy("Like 30; empty: by its memory."),
    )
    device_mem = UncheckedField(
        required=False,
        max_length=12,
        label=gettext_lazy("Least memory of each"),
        help_text=gettext_lazy("Like 40g: any device that has as much."),
    )
    device_api = UncheckedField(
        required=False,
        max_length=6,
        label=gettext_lazy("Least CUDA or ROCm"),
        help_text=gettext_lazy("Version that the driver must support, like 12.4."),
    )
    linked_devices = SwitchField(
        initial=False,
        label=gettext_lazy("Links between them"),
        on="yes",
        off="",
        choices=[("", gettext_lazy("Any")), ("yes", gettext_lazy("All linked with each other"))],
        help_text=gettext_lazy("By NVLink or similar, on one machine."),
    )
    isolation = UncheckedChoice(
        required=False,
        initial="",
        label=gettext_lazy("Least isolation"),
        choices=[
            ("", gettext_lazy("Any")),
            ("cooperative", gettext_lazy("Limits of a library")),
            ("server", gettext_lazy("Limits of MPS for each process")),
            ("driver", gettext_lazy("Memory limit of the driver")),
            ("hardware", gettext_lazy("Slice in hardware")),
        ],
    )
    folders = UncheckedMultipleChoice(
        required=False, widget=forms.CheckboxSelectMultiple, label=gettext_lazy("Folders")
    )
    readonly = UncheckedMultipleChoice(
        required=False, widget=forms.CheckboxSelectMultiple, label=gettext_lazy("Read only")
    )
    command = UncheckedField(
        required=False,
        label=gettext_lazy("Command"),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=gettext_lazy("Run by a shell in /home/work; its output becomes the log."),
    )
    timeout_s = UncheckedField(
        required=False,
        label=gettext_lazy("Time limit in seconds"),
        widget=forms.NumberInput(attrs={"min": "1"}),
        help_text=gettext_lazy("The session is stopped after this time."),
    )
    max_retries = UncheckedField(
        required=False,
        initial="0",
        label=gettext_lazy("Retries"),
        widget=forms.NumberInput(attrs={"min": 0, "max": MAX_RETRIES}),
        help_text=gettext_lazy("Number of retries if the command fails."),
    )
    requeues = SwitchField(
        initial=False,
        label=gettext_lazy("On machine failure"),
        on="yes",
        off="",
        choices=[("", gettext_lazy("End the session")), ("yes", gettext_lazy("Requeue"))],
        help_text=gettext_lazy("The lost machine may run the command until it answers again."),
    )
    array = UncheckedField(
        required=False,
        max_length=LONGEST_SPEC,
        label=gettext_lazy("Array"),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
        help_text=gettext_lazy(
            "Many sessions of this request, like 1-100; 1-100%10 runs ten of them at once. Each "
            "finds its number in BERTH_ARRAY_INDEX."
        ),
    )
    environment = VariablesField(
        required=False,
        label=gettext_lazy("Environment variables"),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocomplete": "off"}),
        help_text=gettext_lazy("One NAME=value per line. Not part of the address of this page."),
    )

    personal_files = SwitchField(
        initial=True,
        label=gettext_lazy("Dotfiles and start-up script"),
        on="mine",
        off="none",
        choices=[("mine", gettext_lazy("Use mine")), ("none", gettext_lazy("Leave them out"))],
    )

    priority = UncheckedField(
        required=False,
        initial="0",
        label=gettext_lazy("Priority"),
        widget=forms.NumberInput(attrs={"min": LOWEST_PRIORITY, "max": HIGHEST_PRIORITY}),
        help_text=gettext_lazy(
            "Sessions with a higher priority go first. Below 0 lets others go first; above 0 a "
            "policy must allow it."
        ),
    )

    start_at = UncheckedField(
        required=False,
        label=gettext_lazy("Not before"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text=gettext_lazy("In your time zone; without scripts in UTC."),
    )
    time_zone = UncheckedField(required=False, widget=forms.HiddenInput(attrs={"data-time-zone": ""}))
    pending_timeout_s = DurationField(
        required=False,
        max_length=40,
        label=gettext_lazy("Maximum wait"),
        help_text=gettext_lazy(
            "Like 30m, 12h or 7d; the session is cancelled if no machine had capacity by then."
        ),
    )

    after = UncheckedField(
        required=False,
        max_length=2000,
        label=gettext_lazy("Dependencies"),
        widget=forms.TextInput(attrs={"list": "sessions-to-come-after", "autocomplete": "off"}),
        help_text=gettext_lazy("Names or ids of your sessions or arrays, separated by commas."),
    )
    after_when = UncheckedChoice(
        required=False,
        initial=When.SUCCESS.value,
        label=gettext_lazy("Condition"),
        choices=[
            (When.SUCCESS.value, gettext_lazy("have succeeded")),
            (When.ANY.value, gettext_lazy("have ended")),
            (When.FAILURE.value, gettext_lazy("have failed")),
        ],
    )

    callback_url = UncheckedField(
        required=False,
        max_length=MAX_URL_LENGTH,
        label=gettext_lazy("Callback"),
        widget=forms.URLInput(attrs={"placeholder": "https://", "autocomplete": "off"}),
        help_text=gettext_lazy("An address that gets a signed POST when the session starts and ends."),
    )

    designated_agent = UncheckedField(
        required=False,
        max_length=MAX_REFERENCE_LENGTH,
        label=gettext_lazy("Machine"),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Name of a machine of the resource group; empty: any."),
    )
    device_model = UncheckedChoice(
        required=False,
        label=gettext_lazy("Accelerator model"),
        help_text=gettext_lazy("Model of the requested accelerators."),
    )
    elsewhere = SwitchField(
        initial=False,
        label=gettext_lazy("If the machine is full"),
        on="yes",
        off="",
        choices=[("", gettext_lazy("Wait")), ("yes", gettext_lazy("Use another machine"))],
    )
    placement_rule = UncheckedChoice(
        required=False,
        initial="",
        label=gettext_lazy("Spread or pack"),
        choices=[
            ("", gettext_lazy("Anywhere")),
            (PlacementRule.SPREAD.value, gettext_lazy("Spread if possible")),
            (PlacementRule.STRICT_SPREAD.value, gettext_lazy("Spread strictly")),
            (PlacementRule.PACK.value, gettext_lazy("Pack if possible")),
            (PlacementRule.STRICT_PACK.value, gettext_lazy("Pack strictly")),
        ],
    )
    placement_group = UncheckedField(
        required=False,
        max_length=MAX_SESSION_NAME,
        label=gettext_lazy("Placement group"),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
        help_text=gettext_lazy(
            "Your sessions in this project with the same group name; empty: those of the array."
        ),
    )

    cluster_size = UncheckedField(
        required=False,
        initial="1",
        label=gettext_lazy("Containers"),
        widget=forms.NumberInput(attrs={"min": 1, "max": MAX_CLUSTER_SIZE}),
        help_text=gettext_lazy(
            "main1, sub1, sub2… of this size reach each other by name; all start, or none."
        ),
    )
    cluster_mode = UncheckedChoice(
        required=False,
        initial=Gang.ONE_MACHINE.value,
        label=gettext_lazy("Several containers run"),
        choices=[
            (Gang.ONE_MACHINE.value, gettext_lazy("On one machine")),
            (Gang.ANYWHERE.value, gettext_lazy("On one or several machines")),
            (Gang.SPREAD.value, gettext_lazy("Each on another machine")),
        ],
    )
    roles = RolesField(
        required=False,
        label=gettext_lazy("Roles"),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "autocomplete": "off"}),
        help_text=gettext_lazy(
            "Only if containers beside main1 differ from it, one role per line, like worker=2,cpu=4,mem=8g: command. "
            "With “tolerate”, the session goes on if one of them fails."
        ),
    )

    like = UncheckedField(required=False, widget=forms.HiddenInput)
    template = UncheckedField(required=False, widget=forms.HiddenInput)
