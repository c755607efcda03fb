"""Forms of budgets and prices."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from accounts.budgets.selectors import PERIODS, UNITS
from accounts.core.budget_arithmetic import Period, Unit
from accounts.models import Budget
from common.values.resources import CPU, MEM

_NO_COMPLETION = {"autocomplete": "off", "spellcheck": "false"}
_NUMBER = {**_NO_COMPLETION, "inputmode": "decimal"}
_DAY = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")


class BudgetForm(forms.Form):
    """Fields of a budget without its owner."""

    unit = forms.ChoiceField(
        choices=[(unit.value, gettext_lazy(title)) for unit, title in UNITS.items()],
        label=gettext_lazy("Unit"),
        help_text=gettext_lazy(
            "Money is counted by the price list; GPU-hours are those of all accelerators together, a part of one in part."
        ),
    )
    amount = forms.DecimalField(
        min_value=0,
        max_digits=14,
        decimal_places=2,
        label=gettext_lazy("Amount"),
        widget=forms.TextInput(attrs=_NUMBER),
    )
    period = forms.ChoiceField(
        choices=[(period.value, gettext_lazy(title)) for period, title in PERIODS.items()],
        label=gettext_lazy("Period"),
        help_text=gettext_lazy(
            "Months and quarters begin again automatically, in UTC. A term does not repeat."
        ),
    )
    starts_on = forms.DateField(required=False, label=gettext_lazy("First day of the term"), widget=_DAY)
    ends_on = forms.DateField(required=False, label=gettext_lazy("Last day of the term"), widget=_DAY)
    warn_percent = forms.IntegerField(
        min_value=1,
        max_value=100,
        initial=80,
        label=gettext_lazy("Warning threshold (percent)"),
        help_text=gettext_lazy("The people it applies to are notified once a period."),
        widget=forms.TextInput(attrs=_NUMBER),
    )
    is_hard = forms.ChoiceField(
        choices=[
            ("", gettext_lazy("Nothing: it only warns")),
            ("yes", gettext_lazy("New sessions are refused")),
        ],
        required=False,
        label=gettext_lazy("When used up"),
        help_text=gettext_lazy("Running sessions continue in any case."),
    )

    def wanted(self) -> dict[str, Any]:
        """Return the input as columns of Budget; days only for a term. Valid forms only."""
        typed = {name: self.cleaned_data[name] for name in BudgetForm.base_fields}
        if typed["period"] != Period.TERM:
            typed |= {"starts_on": None, "ends_on": None}
        return {
            **typed,
            "unit": Unit(typed["unit"]),
            "period": Period(typed["period"]),
            "is_hard": bool(typed["is_hard"]),
        }


class NewBudgetForm(BudgetForm):
    owner = forms.CharField(
        max_length=254,
        label=gettext_lazy("Applies to"),
        help_text=gettext_lazy("Name of a project, or e-mail address of a person."),
        widget=forms.TextInput(attrs=_NO_COMPLETION),
    )
    field_order = ("owner",)


def budget_initial(budget: Budget) -> dict[str, Any]:
    """Return the initial form values of a budget."""
    shown = {name: getattr(budget, name) for name in BudgetForm.base_fields}
    return {**shown, "is_hard": "yes" if budget.is_hard else ""}


class PriceForm(forms.Form):
    slot_name = forms.CharField(
        max_length=32,
        label=gettext_lazy("Resource"),
        help_text=gettext_lazy("cpu, mem, or the name of an accelerator, like cuda."),
        widget=forms.TextInput(attrs={**_NO_COMPLETION, "list": "slot-names"}),
    )
    per_hour = forms.DecimalField(
        min_value=0,
        max_digits=14,
        decimal_places=6,
        label=gettext_lazy("Price of an hour"),
        help_text=gettext_lazy("For one core, one GiB or one device."),
        widget=forms.TextInput(attrs=_NUMBER),
    )
    since = forms.DateField(
        label=gettext_lazy("Valid from"),
        help_text=gettext_lazy("Tomorrow or later, in UTC. Past use keeps its price."),
        widget=_DAY,
    )


SUGGESTED_SLOTS = (CPU, MEM)
