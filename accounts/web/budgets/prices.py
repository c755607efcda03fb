"""Page of the price list: past, current and future prices of an hour of each resource."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_POST

from accounts.budgets import service
from accounts.budgets.selectors import today, tomorrow
from accounts.models import Price
from accounts.selectors import may_do_everything, oversees_people
from accounts.tenancy.preferences import column_choice
from accounts.web.budgets.forms import SUGGESTED_SLOTS, PriceForm
from accounts.web.form_errors import errors_as_messages, errors_in_form
from accounts.web.page_access import page_not_found
from common.errors import InvalidInput
from common.pages.tables import Column, Listing, Table, define_table
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from common.values.money import format_money
from common.values.resources import CPU, MEM, slot_title

TABLE = define_table(
    Table(
        name="prices",
        noun=gettext_noop("prices"),
        sort="resource",
        search=lambda text: Q(slot_name__icontains=text),
        search_label=gettext_noop("Search by resource"),
        columns=(
            Column("resource", gettext_noop("Resource"), ("slot_name", "since"), is_fixed=True),
            Column("price", gettext_noop("Price of an hour"), ("per_hour",), is_number=True),
            Column("since", gettext_noop("Valid from"), ("since",), is_number=True),
            Column("state", gettext_noop("State")),
            Column("remove", "", is_fixed=True),
        ),
    )
)
_PER = {CPU: gettext_noop("of one core"), MEM: gettext_noop("of one GiB")}
_PER_DEVICE = gettext_noop("of one device")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="prices")
def price_list(request: HttpRequest) -> HttpResponse:
    """Show the price list; POST sets a price."""
    _require_overseer(request)
    if request.method != "POST":
        return _page(request, PriceForm(initial={"since": tomorrow()}))
    form = PriceForm(request.POST)
    if form.is_valid():
        with errors_in_form(form, InvalidInput):
            price = service.set_price(actor=actor_of(request), **form.cleaned_data)
            sentence = _("An hour of {resource} costs {price} from {day} on.")
            sentence = sentence.format(
                resource=price.slot_name, price=_format_price(price), day=price.since.isoformat()
            )
            messages.success(request, sentence)
            return redirect("prices")
    return _page(request, form, status=422)


@login_required
@require_POST
def delete_price(request: HttpRequest, price_id: int) -> HttpResponse:
    _require_overseer(request)
    with errors_as_messages(request, InvalidInput):
        service.delete_price(actor=actor_of(request), price_id=price_id)
        messages.success(request, _("The price is withdrawn; the one before it applies again."))
    return redirect("prices")


def _require_overseer(request: HttpRequest) -> None:
    if not oversees_people(request.user):  # type: ignore[arg-type]
        raise page_not_found()


def _page(request: HttpRequest, form: PriceForm, *, status: int = 200) -> HttpResponse:
    actor, day = actor_of(request), today()
    listing = Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name))
    page = listing.page(Price.objects.all(), lambda prices: prices)
    newest = Price.objects.filter(since__lte=day).order_by("slot_name", "-since").distinct("slot_name")
    holding = {price.pk for price in newest}
    context: dict[str, Any] = {
        "listing": listing, "columns": listing.columns, "page": page, "slot_names": SUGGESTED_SLOTS,
        "form": form if may_do_everything(actor) else None,
        "rows": [
            {
                "price": price,
                "title": slot_title(price.slot_name),
                "amount": _format_price(price),
                "per": _(_PER.get(price.slot_name, _PER_DEVICE)),
                "state": "holds" if price.pk in holding else "to_come" if price.since > day else "over",
                "can_remove": may_do_everything(actor) and price.since > day,
            }
            for price in page
        ],
    }  # fmt: skip
    return render(request, "accounts/prices.html", context, status=status)


def _format_price(price: Price) -> str:
    """Format the price with as few decimals as needed, at least two: 0.05 instead of 0.050000."""
    whole, _dot, decimals = f"{price.per_hour:.6f}".partition(".")
    return format_money(f"{whole}.{decimals.rstrip('0').ljust(2, '0')}")
