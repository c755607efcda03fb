"""Page of the fair-share entries and weights of a resource group."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from django.views.decorators.http import require_http_methods

from accounts.core.limits import Level
from accounts.selectors import may_do_everything
from accounts.web.form_errors import add_errors
from accounts.web.page_access import require_global_overseer
from agents.grantee import grantee_name
from agents.models import ResourceGroup, Scheduler
from agents.selectors import access_group
from agents.web.group_forms import NO_AUTOFILL
from agents.web.groups import find_grantee, superadmin_or_404
from common.actors import Actor
from common.db.pagination import ROWS_PER_PAGE
from common.errors import BerthError
from scheduler.fairness.standings import FairShareEntry, read_fair_share_entries
from scheduler.fairness.weights import format_weight, set_share_weight
from scheduler.models import LEAST_WEIGHT, MOST_WEIGHT

SMALL = 0.01
LEVELS = {
    Level.DOMAIN: gettext_noop("Domains"),
    Level.PROJECT: gettext_noop("Projects"),
    Level.USER: gettext_noop("People"),
}


class WeightForm(forms.Form):
    level = forms.ChoiceField(
        choices=[
            (Level.DOMAIN.value, gettext_lazy("Domain")),
            (Level.PROJECT.value, gettext_lazy("Project")),
            (Level.USER.value, gettext_lazy("Person")),
        ],
        label=gettext_lazy("Of a"),
    )
    holder = forms.CharField(
        max_length=254,
        label=gettext_lazy("Name or e-mail"),
        widget=forms.TextInput(attrs=NO_AUTOFILL),
        help_text=gettext_lazy("Write domain/project if several domains have a project of that name."),
    )
    weight = forms.DecimalField(
        max_digits=7,
        decimal_places=3,
        min_value=LEAST_WEIGHT,
        max_value=MOST_WEIGHT,
        label=gettext_lazy("Weight"),
        help_text=gettext_lazy("Twice the weight is twice the share. The default is 1."),
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
    )


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def weights_page(request: HttpRequest, group_id: int) -> HttpResponse:
    """Show the entries of ?level= domain, project or user, filtered by ?q=, page ?page=; POST sets
    a weight.
    """
    actor = require_global_overseer(request) if request.method != "POST" else superadmin_or_404(request)
    group = access_group(actor, group_id)
    if request.method != "POST":
        return _page(request, actor, group, WeightForm(initial={"level": _level(request).value}))
    form = WeightForm(request.POST)
    if form.is_valid():
        typed = form.cleaned_data
        level = Level(typed["level"])
        try:
            holder = find_grantee(actor, level, typed["holder"])
            weight = set_share_weight(actor=actor, group_id=group_id, holder=holder, weight=typed["weight"])
        except BerthError as refusal:
            _mark(form, refusal)
        else:
            sentence = _("The weight of {who} in “{name}” is {weight} now.")
            messages.success(
                request,
                sentence.format(who=grantee_name(holder), weight=format_weight(weight), name=group.name),
            )
            return redirect(reverse("resource-group-weights", args=[group_id], query={"level": level.value}))
    return _page(request, actor, group, form, status=422)


def _mark(form: WeightForm, refusal: BerthError) -> None:
    """Show errors in the form: holders are looked up in several ways, which name the field
    differently.
    """
    if "weight" in refusal.fields:
        add_errors(form, refusal)
    else:
        form.add_error("holder", refusal.message)


def _level(request: HttpRequest) -> Level:
    words = [level.value for level in LEVELS]
    wanted = request.POST.get("level") or request.GET.get("level", "")
    return Level(wanted) if wanted in words else Level.DOMAIN


def _page(
    request: HttpRequest, actor: Actor, group: ResourceGroup, form: WeightForm, *, status: int = 200
) -> HttpResponse:
    level, text = _level(request), request.GET.get("q", "").strip()
    standings = read_fair_share_entries(group, level)
    found = [each for each in standings if text.lower() in "/".join((*each.above, each.name)).lower()]
    page = Paginator(found, ROWS_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "group": group,
        "level": level.value,
        "text": text,
        "is_empty": not standings,
        "tabs": [_tab(group, each, title, level) for each, title in LEVELS.items()],
        "page": page,
        "rows": [_row(each) for each in page],
        "form": form if may_do_everything(actor) else None,
        "decides": Scheduler(group.scheduler).label,
        "is_fair_share": group.scheduler == Scheduler.FAIR_SHARE,
        "is_drf": group.scheduler == Scheduler.DRF,
    }
    return render(request, "scheduler/weights.html", context, status=status)


def _tab(group: ResourceGroup, level: Level, title: str, active: Level) -> dict[str, Any]:
    address = reverse("resource-group-weights", args=[group.pk], query={"level": level.value})
    return {"label": _(title), "url": address, "is_active": level is active}


def _row(standing: FairShareEntry) -> dict[str, Any]:
    """Return the values of a row: shares in percent; the weighted usage is a number, as it may
    exceed 1.
    """
    return {
        "name": standing.name,
        "above": " / ".join(standing.above),
        "holder": standing.holder_name,
        "level": standing.level.value,
        "weight": format_weight(standing.weight),
        "target": None if standing.target is None else _percent(standing.target),
        "held": _percent(standing.held),
        "lately": _percent(standing.lately),
        "counts": f"{100 * standing.counts:.2f}",
    }


def _percent(share: float) -> str:
    """Format as percent; two decimals for small shares."""
    return f"{100 * share:.{2 if 0 < share < SMALL else 1}f} %"
