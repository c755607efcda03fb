"""Forms of resource policies. Limits are entered in display units; an empty field means unlimited,
zero forbids where accepted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from accounts.core.allow_lists import AllowList
from accounts.core.utilization import (
    LEAST_GRACE_S,
    LEAST_WINDOW_S,
    MIN_UTILIZATION_COLUMNS,
    MOST_WINDOW_S,
    UtilizationRule,
)
from accounts.forms.limit_fields import (
    BROWSERS,
    PRIORITY,
    EntriesField,
    SlotsField,
    bytes_field,
    cores_field,
    count_field,
    duration_field,
    percent_field,
    span_field,
)
from accounts.models import ALLOW_COLUMNS, COLUMNS, UTILIZATION_RULES, ResourcePolicy
from common.values.resources import CPU, MEM

# Fields of the page by heading, with the text below it.
SECTIONS = (
    (
        gettext_noop("Sessions"),
        gettext_noop("How many at once, how large each, and for how long."),
        ("max_sessions", "max_pending_sessions", "max_containers", "max_priority"),
    ),
    (
        gettext_noop("Idle timeout and lifetime"),
        gettext_noop(
            "Sessions end by these limits; their owners are warned before. Resource groups have such limits as well; the"
            " tightest of all applies, for running sessions as well, except for the lifetime."
        ),
        ("max_lifetime_s", "max_idle_s", "max_extensions", "max_extension_s"),
    ),
    (
        gettext_noop("Low utilization"),
        gettext_noop(
            "Running sessions end for it as well, whatever the resource group and other policies say. Batch sessions are"
            " exempt, unless the group ends these for low utilization as well."
        ),
        (*MIN_UTILIZATION_COLUMNS, "use_rule", "use_window_s", "use_grace_s"),
    ),
    (
        gettext_noop("Allocated resources"),
        gettext_noop(
            "To all running sessions together. A session that requests more than is left waits "
            "for the others."
        ),
        ("max_slots_cpu", "max_slots_mem", "max_slots_devices"),
    ),
    (
        gettext_noop("Requested resources of waiting sessions"),
        gettext_noop("So that nobody fills the queue that all wait in."),
        ("max_pending_slots_cpu", "max_pending_slots_mem", "max_pending_slots_devices"),
    ),
    (
        gettext_noop("Other"),
        gettext_noop(
            "Folders count for domains, projects and people; tokens for people alone; logins "
            "for each person, also of a domain."
        ),
        ("max_folders", "max_folder_bytes", "max_keypairs", "max_requests", "max_browsers"),
    ),
)
ALLOWED = (
    gettext_noop("Allow-lists"),
    gettext_noop(
        "An empty field allows all; “none” alone allows nothing. What runs goes on, and "
        "folders that are there stay."
    ),
    tuple(ALLOW_COLUMNS.values()),
)
SLOT_FIELDS = ("max_slots", "max_pending_slots")
SINGLE_FIELDS = (*COLUMNS.values(), "use_rule")
_DEVICES = gettext_lazy(
    "Like “cuda=2, rocm=1”, in whole devices or shares. Devices that are not named are unlimited."
)
_MEMORY = gettext_lazy("Like 64g or 512m.")


class PolicyForm(forms.Form):
    """Form of a policy. `domains`: names of possible owners, "" for the whole installation; a
    single one is no choice.
    """

    name = forms.CharField(
        max_length=64,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    domain = forms.ChoiceField(
        required=False,
        label=gettext_lazy("For whom"),
        help_text=gettext_lazy("A policy of a domain applies to its projects, people and tokens."),
    )
    max_sessions = count_field(
        label=gettext_lazy("Live sessions"), help_text=gettext_lazy("Waiting, starting or running.")
    )
    max_pending_sessions = count_field(label=gettext_lazy("Waiting sessions"))
    max_containers = count_field(label=gettext_lazy("Containers of one session"))
    max_lifetime_s = duration_field(
        label=gettext_lazy("Lifetime of a session"),
        help_text=gettext_lazy(
            "From the start of a session, like 90m, 12h or 7d. Existing sessions keep theirs."
        ),
    )
    max_priority = count_field(label=gettext_lazy("Priority of a session"), help_text=PRIORITY)
    max_idle_s = duration_field(
        label=gettext_lazy("Idle timeout of a session"),
        help_text=gettext_lazy(
            "Time without user activity, like 2h. An open page alone is no activity. Batch "
            "sessions are exempt."
        ),
    )
    max_extensions = count_field(
        label=gettext_lazy("Extensions of a session"),
        help_text=gettext_lazy(
            "How often a session may be extended; 0 forbids it. Empty: as the resource group says."
        ),
    )
    max_extension_s = duration_field(
        label=gettext_lazy("Length of an extension"),
        help_text=gettext_lazy("Maximum of each extension, like 1h."),
    )
    min_cpu_percent = percent_field(
        label=gettext_lazy("Minimum CPU utilization, in %"),
        help_text=gettext_lazy("Percent of the session's allocation. Empty: as the resource group says."),
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
        initial=UtilizationRule.ANY.value,
        label=gettext_lazy("Utilization is low if"),
        help_text=gettext_lazy(
            "Of the resources that have a minimum utilization here; each policy is evaluated separately."
        ),
    )
    use_window_s = span_field(
        LEAST_WINDOW_S,
        MOST_WINDOW_S,
        label=gettext_lazy("Measured over"),
        help_text=gettext_lazy(
            "Averaging period, 10 minutes to a day; the shortest of all applies. Empty: as the "
            "resource group says."
        ),
    )
    use_grace_s = span_field(
        LEAST_GRACE_S,
        label=gettext_lazy("Grace time"),
        help_text=gettext_lazy(
            "Time from low utilization to the end, 10 minutes or more; the shortest of all "
            "applies. Empty: as the resource group says."
        ),
    )
    max_slots_cpu = cores_field(label=gettext_lazy("CPU cores"))
    max_slots_mem = bytes_field(label=gettext_lazy("Memory"), help_text=_MEMORY)
    max_slots_devices = SlotsField(required=False, label=gettext_lazy("Accelerators"), help_text=_DEVICES)
    max_pending_slots_cpu = cores_field(label=gettext_lazy("CPU cores"))
    max_pending_slots_mem = bytes_field(label=gettext_lazy("Memory"), help_text=_MEMORY)
    max_pending_slots_devices = SlotsField(
        required=False, label=gettext_lazy("Accelerators"), help_text=_DEVICES
    )
    max_folders = count_field(label=gettext_lazy("Folders"))
    max_folder_bytes = bytes_field(
        label=gettext_lazy("Size of folders"),
        help_text=gettext_lazy(
            "Of all folders together, like 500g. Above it, uploads, new folders and writable "
            "mounts are refused; running sessions continue."
        ),
    )
    max_keypairs = count_field(label=gettext_lazy("API tokens"))
    max_requests = count_field(
        label=gettext_lazy("Requests of one API token in a minute"),
        help_text=gettext_lazy(
            "Of a domain, a person or a token. Empty at all of them: as the settings say."
        ),
    )
    max_browsers = count_field(label=gettext_lazy("Concurrent logins"), help_text=BROWSERS)

    allowed_registries = EntriesField(
        AllowList.REGISTRIES,
        label=gettext_lazy("Registries of images"),
        help_text=gettext_lazy(
            "One per line, like ghcr.io or ghcr.io/group; “local” means images named without a "
            "host: from Docker Hub, or built on machines."
        ),
    )
    allowed_images = EntriesField(
        AllowList.IMAGES,
        label=gettext_lazy("Images"),
        help_text=gettext_lazy("One per line, like python:3.12 or ghcr.io/group/*; without a tag, all tags."),
    )
    allowed_storage_hosts = EntriesField(
        AllowList.STORAGE_HOSTS,
        label=gettext_lazy("Storage hosts of new folders"),
        help_text=gettext_lazy("One name per line."),
    )

    def __init__(
        self, data: object = None, *, domains: Sequence[str], initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))  # type: ignore[arg-type]
        field = self.fields["domain"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name or _("The whole installation")) for name in domains]
        if len(domains) < 2:
            del self.fields["domain"]

    def limits(self) -> dict[str, Any]:
        """Return the input as columns of ResourcePolicy. Valid forms only."""
        typed = self.cleaned_data
        found: dict[str, Any] = {name: typed[name] for name in (*SINGLE_FIELDS, *ALLOW_COLUMNS.values())}
        found["use_rule"] = found["use_rule"] or UtilizationRule.ANY.value
        for column in SLOT_FIELDS:
            single = {CPU: typed[f"{column}_cpu"], MEM: typed[f"{column}_mem"]}
            given = {slot: amount for slot, amount in single.items() if amount is not None}
            found[column] = {**given, **typed[f"{column}_devices"]}
        return found

    def sections(self) -> list[dict[str, Any]]:
        return [
            {"title": _(title), "text": _(text), "fields": [self[name] for name in names]}
            for title, text, names in SECTIONS
        ]

    def allowed(self) -> dict[str, Any]:
        """Section of allow-lists."""
        title, text, names = ALLOWED
        return {"title": _(title), "text": _(text), "fields": [self[name] for name in names]}


def limits_initial(policy: ResourcePolicy) -> dict[str, Any]:
    """Return the initial form values of a policy."""
    shown = {name: getattr(policy, name) for name in (*SINGLE_FIELDS, *ALLOW_COLUMNS.values())}
    for column in SLOT_FIELDS:
        amounts = dict(getattr(policy, column))
        shown |= {f"{column}_cpu": amounts.pop(CPU, None), f"{column}_mem": amounts.pop(MEM, None)}
        shown[f"{column}_devices"] = amounts
    return shown


def form_field(column: str) -> str:
    """Return the form field of a service's field name, e.g. max_slots.cpu or max_sessions."""
    name, _dot, slot = column.partition(".")
    if not slot:
        return name
    return f"{name}_{slot}" if slot in (CPU, MEM) else f"{name}_devices"
