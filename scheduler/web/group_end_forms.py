"""Form fields for the session end rules of a resource group."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from accounts.core.utilization import LEAST_GRACE_S, LEAST_USES, LEAST_WINDOW_S, MOST_WINDOW_S
from accounts.forms.limit_fields import count_field, duration_field, percent_field, span_field
from accounts.models import USE_RULES
from agents.models import LEAST_SPAN_S, ResourceGroup

_NEW = ResourceGroup()
DEFAULTS = {
    name: getattr(_NEW, name)
    for name in ("use_rule", "use_window_s", "use_grace_s", "max_extensions", "extension_s")
}
_AS_TYPED = ("max_lifetime_s", "max_idle_s", *LEAST_USES, "use_rule", "ends_idle_batch")


class GroupEndsForm(forms.Form):
    max_lifetime_s = span_field(
        LEAST_SPAN_S,
        label=gettext_lazy("Lifetime of a session"),
        help_text=gettext_lazy("From its start, like 90m, 12h or 7d. Empty: as policies say."),
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
        help_text=gettext_lazy("Of what is allocated to the session. Empty: as policies say."),
    )
    min_mem_percent = percent_field(label=gettext_lazy("Minimum memory utilization, in %"))
    min_device_percent = percent_field(
        label=gettext_lazy("Minimum accelerator utilization, in %"),
        help_text=gettext_lazy(
            "Not measured on machines over the network, nor of devices that sessions share: there it ends nothing."
        ),
    )
    min_device_mem_percent = percent_field(label=gettext_lazy("Minimum accelerator memory utilization, in %"))
    use_rule = forms.ChoiceField(
        choices=USE_RULES,
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
        help_text=gettext_lazy("The mean of the last 10 minutes to a day counts. Empty: an hour."),
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
        help_text=gettext_lazy("Like 1h. Policies may say less."),
    )

    def ends(self) -> dict[str, Any]:
        """Return the values as columns of ResourceGroup. Only if the form is valid."""
        typed = self.cleaned_data
        return {
            **{name: typed[name] for name in _AS_TYPED},
            "use_rule": typed["use_rule"] or DEFAULTS["use_rule"],
            "use_window_s": typed["use_window_s"] or DEFAULTS["use_window_s"],
            "use_grace_s": typed["use_grace_s"] or DEFAULTS["use_grace_s"],
            "max_extensions": typed["max_extensions"] or 0,
            "extension_s": typed["extension_s"] or 0,
        }


def typed_ends(group: ResourceGroup) -> dict[str, Any]:
    """Return the initial values for a group."""
    return {
        **{name: getattr(group, name) for name in (*_AS_TYPED, "use_window_s", "use_grace_s")},
        "max_extensions": group.max_extensions or None,
        "extension_s": group.extension_s or None,
    }
