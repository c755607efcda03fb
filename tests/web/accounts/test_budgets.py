"""Pages of budgets and prices."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from accounts.budgets.selectors import today
from accounts.budgets.service import create_budget, update_budget
from accounts.core.budget_arithmetic import HOUR, Period, Unit
from accounts.core.limits import Level
from accounts.core.roles import Role
from accounts.models import Budget, DaySlots, Price, User
from common.actors import SYSTEM
from tests.factories import api_client, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("standing_clock")]
Browser = Callable[[User], Client]
TYPED = {"unit": "device_hours", "amount": "100", "period": "month", "warn_percent": "80", "is_hard": "yes"}


@pytest.fixture
def governor(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))


@pytest.fixture
def superadmin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def spend(place: Place, device_hours: int) -> None:
    DaySlots.objects.create(
        day=today(),
        project_id=place.project.pk,
        user_id=place.owner.pk,
        slot_name="cuda",
        held=device_hours * 1000 * HOUR,
    )


def sure_in(page: str) -> str:
    return page.partition('name="sure" value="')[2][:16]


def test_a_budget_is_shown_with_what_is_spent_already_before_it_is_saved(
    place: Place, governor: Client
) -> None:
    spend(place, 90)
    address, typed = "/budgets/new/", {**TYPED, "owner": place.project.name}
    shown = governor.post(address, typed).content.decode()
    assert "90.00 of 100.00 are spent already" in shown
    assert "1 person starts sessions on it" in shown
    assert "So it warns at once, and refuses nothing now." in shown
    assert not Budget.objects.exists()

    changed = governor.post(address, {**typed, "amount": "90", "sure": sure_in(shown)}).content.decode()
    assert "So it refuses new sessions at once." in changed, "other values are asked about again"
    answer = governor.post(address, {**typed, "sure": sure_in(shown)})
    budget = Budget.objects.get(project=place.project)
    assert answer["Location"] == f"/budgets/{budget.pk}/"
    assert (budget.amount, budget.is_hard, budget.is_central) == (100, True, False)

    for page in ("/budgets/", f"/projects/{place.project.pk}/", f"/budgets/{budget.pk}/"):
        words = governor.get(page).content.decode()
        assert "90.00 of 100.00" in words
        assert "Nearly used up" in words


def test_a_budget_is_changed_and_removed(place: Place, governor: Client) -> None:
    first = today()
    budget = create_budget(
        actor=SYSTEM, level=Level.USER, owner_id=place.owner.pk, unit=Unit.MONEY, amount=Decimal(5), period=Period.MONTH
    )  # fmt: skip
    address = f"/budgets/{budget.pk}/"
    assert "A superadmin set this budget" in governor.get(address).content.decode()
    assert governor.post(address, TYPED).status_code == 403
    Budget.objects.update(is_central=False)

    term = {
        **TYPED,
        "period": "term",
        "starts_on": first.isoformat(),
        "ends_on": first.isoformat(),
        "is_hard": "",
    }
    assert "A term has a first" in governor.post(address, {**term, "ends_on": ""}).content.decode()
    assert "field-error" in governor.post(address, {**term, "amount": "much"}).content.decode()
    shown = governor.post(address, term).content.decode()
    assert governor.post(address, {**term, "sure": sure_in(shown)}).status_code == 302
    budget.refresh_from_db()
    assert (budget.period, budget.ends_on, budget.is_hard) == ("term", first, False)

    assert governor.post(f"{address}delete/", {"confirm": "no"})["Location"] == address
    assert governor.post(f"{address}delete/", {"confirm": place.owner.email})["Location"] == "/budgets/"
    assert not Budget.objects.exists()


@pytest.mark.parametrize("owner", ["nobody@berth.example", "no-project", ""])
def test_a_budget_needs_somebody_whom_it_binds(governor: Client, owner: str) -> None:
    answer = governor.post("/budgets/new/", {**TYPED, "owner": owner})
    assert answer.status_code == 422
    assert 'value="100"' in answer.content.decode(), "nothing typed is lost"


def test_budgets_of_all_times_have_tabs(place: Place, governor: Client, superadmin: Client) -> None:
    for start, amount in ((-20, 11), (0, 22), (20, 33)):
        first = today() + timedelta(days=start)
        create_budget(
            actor=SYSTEM, level=Level.PROJECT, owner_id=place.project.pk, unit=Unit.MONEY, amount=Decimal(amount),
            period=Period.TERM, starts_on=first, ends_on=first + timedelta(days=9),
        )  # fmt: skip
    shown = {
        tab: governor.get("/budgets/", {"tab": tab}).content.decode()
        for tab in ("now", "to_come", "over", "all")
    }
    found = {tab: [each for each in (11, 22, 33) if f"of {each}.00" in page] for tab, page in shown.items()}
    assert found == {"now": [22], "to_come": [33], "over": [11], "all": [11, 22, 33]}
    for narrowed in (
        {"of": "user"},
        {"q": "nobody"},
        {"unit": "device_hours"},
        {"hard": "refuses"},
        {"period": "month"},
    ):
        assert "No budget matches" in governor.get("/budgets/", narrowed).content.decode()
    name = place.project.domain.name
    assert "of 22.00" in superadmin.get("/budgets/", {"domain": name}).content.decode()


def test_the_price_list_shows_what_holds_and_what_is_to_come(superadmin: Client, governor: Client) -> None:
    day = today()
    Price.objects.create(slot_name="cuda", since=day - timedelta(days=30), per_hour=Decimal("1.5"))
    Price.objects.create(slot_name="cuda", since=day, per_hour=Decimal("2.125"))
    typed = {"slot_name": "cuda", "per_hour": "3", "since": (day + timedelta(days=1)).isoformat()}
    assert superadmin.post("/budgets/prices/", typed)["Location"] == "/budgets/prices/"
    words = superadmin.get("/budgets/prices/").content.decode()
    for word in ("1.50", "2.125", "3.00", "Past", "In effect", "Upcoming", "Withdraw"):
        assert word in words
    assert "Withdraw" not in governor.get("/budgets/prices/").content.decode()
    assert governor.post("/budgets/prices/", typed).status_code == 403

    wrong = superadmin.post("/budgets/prices/", {**typed, "since": day.isoformat()})
    assert "What was held keeps its price" in wrong.content.decode()
    old, now, coming = Price.objects.order_by("since")
    for price, left in ((coming, 2), (old, 2), (now, 2)):
        assert superadmin.post(f"/budgets/prices/{price.pk}/delete/").status_code == 302
        assert Price.objects.count() == left


def test_what_a_monitor_and_a_member_see(place: Place, browser_of: Browser) -> None:
    create_budget(
        actor=SYSTEM, level=Level.USER, owner_id=place.owner.pk, unit=Unit.MONEY, amount=Decimal(5), period=Period.MONTH
    )  # fmt: skip
    budget = Budget.objects.get()
    monitor = browser_of(make_user(domain=place.project.domain, role=Role.DOMAIN_MONITOR))
    assert "of 5.00" in monitor.get("/budgets/").content.decode()
    assert "Set a price" not in monitor.get("/budgets/prices/").content.decode()
    assert monitor.get("/budgets/new/").status_code == 404
    assert monitor.post(f"/budgets/{budget.pk}/", TYPED).status_code == 403
    member = browser_of(place.owner)
    for page in ("/budgets/", "/budgets/prices/", f"/budgets/{budget.pk}/"):
        assert member.get(page).status_code == 404
    assert "0.00 of 5.00" in member.get("/profile/").content.decode()


def test_the_launcher_says_what_is_left_and_names_every_refusal(place: Place, browser_of: Browser) -> None:
    wanted: dict[str, Any] = {"level": Level.USER, "owner_id": place.owner.pk, "unit": Unit.DEVICE_HOURS}
    spend(place, 90)
    soft = create_budget(actor=SYSTEM, **wanted, amount=Decimal(100), period=Period.MONTH)
    browser = browser_of(place.owner)
    asked = {**place.request(), "cpu": "1", "mem": "1g", "type": "interactive"}
    words = browser.post("/sessions/new/summary/", asked).content.decode()
    assert f"The budget of {place.owner.email} is nearly used up: 10.00 of 100.00 GPU-hours left" in words

    update_budget(actor=SYSTEM, budget_id=soft.pk, changes={"amount": Decimal(90), "is_hard": True})
    limit(place.owner, max_pending_slots={"cpu": 1})
    refused = browser.post("/sessions/new/", asked)
    words = refused.content.decode()
    assert refused.status_code == 422
    assert f"The budget of {place.owner.email} is used up: all of 90.00 GPU-hours." in words
    body = api_client(place.owner).post("/api/v1/sessions/", place.request(), format="json").json()
    assert (len(body["limits"]), len(body["budgets"])) == (1, 1)
