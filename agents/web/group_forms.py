"""Forms of resource groups."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from accounts.core.limits import HIGHEST_PRIORITY, Level
from accounts.core.utilization import LEAST_GRACE_S, LEAST_WINDOW_S, MIN_UTILIZATION_COLUMNS, MOST_WINDOW_S
from accounts.forms.limit_fields import (
    SlotsField,
    bytes_field,
    cores_field,
    count_field,
    duration_field,
    percent_field,
    span_field,
)
from accounts.models import UTILIZATION_RULES
from agents.core.sandboxes import SANDBOX_TITLES
from agents.models import (
    LEAST_SPAN_S,
    MOST_OVERCOMMIT,
    ResourceGroup,
    Scheduler,
    SessionType,
    Strategy,
)
from agents.resource_groups.service import DEVICE_RULES, OVERCOMMIT_FACTORS
from common.values.resources import CPU, MEM

LONGEST_NAME = 64  # of an agent
NO_AUTOFILL = {"autocomplete": "off", "spellcheck": "false"}
# fields whose values are columns as they are
_UNCHANGED = (
    "name", "description", "is_default", "is_public", "scheduler", "strategy", "ageing_s", "preemptible_priority",
    "max_lifetime_s", "max_idle_s", *MIN_UTILIZATION_COLUMNS, "ends_idle_batch", *DEVICE_RULES,
)  # fmt: skip
_DEFAULT_IF_EMPTY = ("sandbox", "use_rule", "use_window_s", "use_grace_s", "usage_half_life_s")
_ZERO_IF_EMPTY = ("max_extensions", "extension_s", "patience_s", "preemption_after_s", "preemption_grace_s")
_NEW = ResourceGroup()
DEFAULTS = {name: getattr(_NEW, name) for name in (*_DEFAULT_IF_EMPTY, *_ZERO_IF_EMPTY)}
SESSION_TYPE_FIELDS = {f"takes_{kind.value}": kind.value for kind in SessionType}


def overcommit_field(label: Any, help_text: Any) -> forms.DecimalField:
    """Make a field for an overcommit factor; empty means 1."""
    return forms.DecimalField(
        required=False,
        max_digits=4,
        decimal_places=2,
        min_value=1,
        max_value=MOST_OVERCOMMIT,
        initial=1,
        label=label,
        help_text=help_text,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )


class GroupEndsForm(forms.Form):
    max_lifetime_s = span_field(
        LEAST_SPAN_S,
        label=gettext_lazy("Lifetime of a session"),
        help_text=gettext_lazy("From the start of a session, like 90m, 12h or 7d. Empty: as policies say."),
    )
    max_idle_s = span_field(
        LEAST_SPAN_S,
        label=gettext_lazy("Idle timeout of a session"),
        help_text=gettext_lazy(
            "An interactive session ends after this time, like 2h, without user activity and without a program that computes."
            " An open page alone is no activity. Empty: as policies say."
        ),
    )
    min_cpu_percent = percent_field(
        label=gettext_lazy("Minimum CPU utilization, in %"),
        help_text=gettext_lazy("Percent of the session's allocation. Empty: as policies say."),
    )
    min_mem_percent = percent_field(label=gettext_lazy("Minimum memory utilization, in %"))
    min_device_percent = percent_field(
        label=gettext_lazy("Minimum accelerator utilization, in %"),
        help_text=gettext_lazy(
            "Not measured, and so without effect, on agents reached over the network and for "
            "devices that sessions share."
        ),
    )
    min_device_mem_percent = percent_field(label=gettext_lazy("Minimum accelerator memory utilization, in %"))
    use_rule = forms.ChoiceField(
        choices=UTILIZATION_RULES,
        required=False,
        initial=DEFAULTS["use_rule"],
        label=gettext_lazy("Utilization is low if"),
        help_text=gettext_lazy("Of the resources that have a minimum utilization."),
    )
    use_window_s = span_field(
        LEAST_WINDOW_S,
        MOST_WINDOW_S,
        initial=DEFAULTS["use_window_s"],
        label=gettext_lazy("Measured over"),
        help_text=gettext_lazy("Averaging period, 10 minutes to a day. Empty: an hour."),
    )
    use_grace_s = span_field(
        LEAST_GRACE_S,
        initial=DEFAULTS["use_grace_s"],
        label=gettext_lazy("Grace time"),
        help_text=gettext_lazy(
            "Time from low utilization to the end, 10 minutes or more; the owner is warned. Empty: an hour."
        ),
    )
    ends_idle_batch = forms.BooleanField(
        required=False,
        label=gettext_lazy("End batch sessions with low utilization, too"),
    )
    max_extensions = count_field(
        initial=DEFAULTS["max_extensions"],
        label=gettext_lazy("Extensions"),
        help_text=gettext_lazy("How often a session may be extended. Empty: never."),
    )
    extension_s = duration_field(
        initial=DEFAULTS["extension_s"],
        label=gettext_lazy("Length of an extension"),
        help_text=gettext_lazy("Like 1h. Policies may allow less."),
    )


class GroupForm(GroupEndsForm):
    name = forms.CharField(
        max_length=64, label=gettext_lazy("Name"), widget=forms.TextInput(attrs=NO_AUTOFILL)
    )
    description = forms.CharField(
        max_length=500,
        required=False,
        label=gettext_lazy("Description"),
        help_text=gettext_lazy("Shown to people who choose a group."),
    )
    is_public = forms.TypedChoiceField(
        choices=[
            ("yes", gettext_lazy("Everybody")),
            ("no", gettext_lazy("Restricted (grants)")),
        ],
        coerce=lambda word: word == "yes",
        initial="yes",
        label=gettext_lazy("Access"),
    )
    is_default = forms.BooleanField(
        required=False,
        label=gettext_lazy("Default"),
        help_text=gettext_lazy("For sessions that name no group."),
    )
    scheduler = forms.ChoiceField(choices=Scheduler.choices, label=gettext_lazy("Ordering"))
    strategy = forms.ChoiceField(
        choices=Strategy.choices,
        label=gettext_lazy("Placement strategy"),
        help_text=gettext_lazy(
            "Concentrated: the fullest machine with capacity. Dispersed: the emptiest one. "
            "Round-robin: one after the other."
        ),
    )
    ageing_s = duration_field(
        label=gettext_lazy("Ageing"),
        help_text=gettext_lazy(
            "Waiting time that raises a session's priority by one, like 6h. Empty: no ageing."
        ),
    )
    patience_s = duration_field(
        initial=DEFAULTS["patience_s"],
        label=gettext_lazy("Wait before a backfill reservation"),
        help_text=gettext_lazy(
            "After this wait, capacity is reserved for the first session that does not fit. Empty: at once."
        ),
    )
    usage_half_life_s = duration_field(
        initial=DEFAULTS["usage_half_life_s"],
        label=gettext_lazy("Fair-share half-life"),
        help_text=gettext_lazy("With fair share, past use counts half after this time. Empty: 7 days."),
    )
    preemptible_priority = forms.IntegerField(
        required=False,
        label=gettext_lazy("Preempt up to priority"),
        min_value=-HIGHEST_PRIORITY,
        max_value=HIGHEST_PRIORITY,
        help_text=gettext_lazy(
            "Sessions of this priority or lower are preempted if a session of higher priority "
            "does not fit. Empty: no preemption."
        ),
    )
    preemption_after_s = duration_field(
        initial=DEFAULTS["preemption_after_s"],
        label=gettext_lazy("Minimum run time before preemption"),
        help_text=gettext_lazy(
            "A session runs at least this long before it can be preempted. Empty: no minimum."
        ),
    )
    preemption_grace_s = duration_field(
        initial=DEFAULTS["preemption_grace_s"],
        label=gettext_lazy("Warning before preemption"),
        help_text=gettext_lazy(
            "Time from the warning to the preemption: an hour at most. Empty: no warning."
        ),
    )
    takes_interactive = forms.BooleanField(
        required=False, initial=True, label=gettext_lazy("Interactive sessions")
    )
    takes_batch = forms.BooleanField(required=False, initial=True, label=gettext_lazy("Batch sessions"))
    max_cpu = cores_field(label=gettext_lazy("CPU cores"))
    max_mem = bytes_field(label=gettext_lazy("Memory"), help_text=gettext_lazy("Like 64g or 512m."))
    max_devices = SlotsField(
        required=False,
        label=gettext_lazy("Accelerators"),
        help_text=gettext_lazy(
            "Like “cuda=2, rocm=1”, in whole devices or shares. Devices that are not named are unlimited."
        ),
    )

    sandbox = forms.ChoiceField(
        choices=[(sandbox.value, gettext_lazy(title)) for sandbox, title in SANDBOX_TITLES.items()],
        required=False,
        initial=DEFAULTS["sandbox"],
        label=gettext_lazy("Sandbox"),
        help_text=gettext_lazy(
            "What separates sessions from the kernel of their machine. Machines without it get none of the "
            "group’s sessions; only runc gives accelerators."
        ),
    )
    allows_rdma = forms.BooleanField(
        required=False,
        label=gettext_lazy("RDMA devices for sessions with accelerators"),
        help_text=gettext_lazy(
            "InfiniBand, RoCE and GDRCopy where a machine has them, and unlimited locked memory. Traffic "
            "over them is not separated between sessions."
        ),
    )
    allows_gpudirect_storage = forms.BooleanField(
        required=False,
        label=gettext_lazy("GPUDirect Storage for sessions with accelerators"),
        help_text=gettext_lazy(
            "nvidia-fs devices where a machine has them, which access its disks directly."
        ),
    )
    cpu_overcommit = overcommit_field(
        gettext_lazy("CPU over-commit"),
        gettext_lazy(
            "2: up to twice the cores of a machine are allocated to all sessions together. One "
            "session gets no more than the machine has."
        ),
    )
    mem_overcommit = overcommit_field(
        gettext_lazy("Memory over-commit"),
        gettext_lazy(
            "Like CPU over-commit, for memory. Where sessions then use more than there is, some "
            "of them are killed."
        ),
    )

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or {}
        if not any(typed.get(name) for name in SESSION_TYPE_FIELDS):
            self.add_error("takes_interactive", gettext_lazy("Choose at least one type of sessions."))
        return typed

    def columns(self) -> dict[str, Any]:
        """Return the values as columns of ResourceGroup. Only if the form is valid."""
        typed = self.cleaned_data
        amounts = {CPU: typed["max_cpu"], MEM: typed["max_mem"]}
        given = {slot: amount for slot, amount in amounts.items() if amount is not None}
        return {
            **{name: typed[name] for name in _UNCHANGED},
            **{name: typed[name] or DEFAULTS[name] for name in _DEFAULT_IF_EMPTY},
            **{name: typed[name] or 0 for name in _ZERO_IF_EMPTY},
            **{name: typed[name] or 1 for name in OVERCOMMIT_FACTORS},
            "session_types": [kind for name, kind in SESSION_TYPE_FIELDS.items() if typed[name]],
            "max_session_slots": {**given, **typed["max_devices"]},
        }


def group_form_values(group: ResourceGroup) -> dict[str, Any]:
    """Return the initial values for a group."""
    amounts = dict(group.max_session_slots)
    return {
        **{name: getattr(group, name) for name in (*_UNCHANGED, *_DEFAULT_IF_EMPTY)},
        **{name: getattr(group, name) or None for name in _ZERO_IF_EMPTY},
        "is_public": "yes" if group.is_public else "no",
        **{name: f"{getattr(group, name).normalize():f}" for name in OVERCOMMIT_FACTORS},
        **{name: kind in group.session_types for name, kind in SESSION_TYPE_FIELDS.items()},
        "max_cpu": amounts.pop(CPU, None),
        "max_mem": amounts.pop(MEM, None),
        "max_devices": amounts,
    }


def form_field(column: str) -> str:
    """Return the form field for a column in a service's error."""
    return {"session_types": "takes_interactive", "max_session_slots": "max_devices"}.get(column, column)


class GrantForm(forms.Form):
    level = forms.ChoiceField(
        choices=[
            (Level.DOMAIN.value, gettext_lazy("Domain")),
            (Level.PROJECT.value, gettext_lazy("Project")),
            (Level.USER.value, gettext_lazy("Person")),
        ],
        label=gettext_lazy("To a"),
    )
    grantee = forms.CharField(
        max_length=254,
        label=gettext_lazy("Name or e-mail"),
        widget=forms.TextInput(attrs=NO_AUTOFILL),
        help_text=gettext_lazy("Write domain/project if several domains have a project of that name."),
    )


class MoveForm(forms.Form):
    agent = forms.CharField(
        max_length=LONGEST_NAME,
        label=gettext_lazy("Machine of another group"),
        widget=forms.TextInput(attrs={**NO_AUTOFILL, "list": "machines-elsewhere"}),
    )
