"""Notifications about budgets, to the users whom the budgets restrict."""

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from accounts.budgets.selectors import budget_refusals, budget_warning, read_budget_states, today
from accounts.budgets.service import create_budget, update_budget
from accounts.core.budget_arithmetic import HOUR, Period, Unit
from accounts.core.limits import Level
from accounts.core.roles import Role
from accounts.models import Budget, DaySlots, Price, User
from common.actors import SYSTEM
from portal.models import Notification, NotificationChoice, ToldNotice
from portal.notifications import budget as notifications_budget
from portal.notifications import service
from portal.notifications.catalogue import Code, Kind
from portal.notifications.selectors import notification_text
from portal.tasks import notify_of_budgets
from tests.factories import api_client, make_user
from tests.factories_sessions import Place
from tests.web.accounts.test_second_factor import browser_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("standing_clock")]


def budget(place: Place, **changes: Any) -> Budget:
    wanted: dict[str, Any] = {
        "level": Level.PROJECT, "owner_id": place.project.pk, "unit": Unit.DEVICE_HOURS, "amount": Decimal(10),
        "period": Period.MONTH, **changes,
    }  # fmt: skip
    return create_budget(actor=SYSTEM, **wanted)


def spend(place: Place, device_hours: int) -> None:
    values = {"held": device_hours * 1000 * HOUR}
    whose = {"project_id": place.project.pk, "user_id": place.owner.pk}
    DaySlots.objects.update_or_create(day=today(), slot_name="cuda", **whose, defaults=values)


def told() -> list[tuple[User, str]]:
    notify_of_budgets()
    return [(each.person, each.code) for each in Notification.objects.order_by("pk").select_related("person")]


def test_all_of_a_project_are_told_once_and_again_when_it_refuses(place: Place) -> None:
    admin, outsider = make_user(admin_of=place.project), make_user(domain=place.project.domain)
    closed = make_user(member_of=place.project)
    User.objects.filter(pk=closed.pk).update(is_active=False)
    hard = budget(place, is_hard=True)
    spend(place, 7)
    assert told() == []
    spend(place, 8)
    nearly = {(place.owner, "hours_nearly_spent"), (admin, "hours_nearly_spent")}
    assert set(told()) == nearly
    assert len(told()) == 2, "once in a period"
    spend(place, 10)
    spent = {(place.owner, "hours_spent"), (admin, "hours_spent")}
    assert set(told()) == nearly | spent
    assert not {outsider, closed} & {person for person, _code in told()}

    update_budget(actor=SYSTEM, budget_id=hard.pk, changes={"amount": Decimal(11)})
    assert len(told()) == 6, "with another amount it is told anew"


def test_who_gets_many_notifications_or_mutes_budgets_is_told_no_second_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "KEPT_NOTIFICATIONS", 1)
    muting = make_user(member_of=place.project)
    NotificationChoice.objects.create(person=muting, muted=[Kind.BUDGETS.value])
    budget(place)
    spend(place, 8)
    assert told() == [(place.owner, "hours_nearly_spent")]
    later = {"code": Code.TOKEN_ENDS_SOON, "happening": "later", "arguments": {"name": "ci"}}
    assert service.notify(person_id=place.owner.pk, **later)
    assert [code for _person, code in told()] == ["token_ends_soon"], "the list forgot it, Berth did not"
    NotificationChoice.objects.all().delete()
    assert len(told()) == 1


def test_notices_are_kept_as_long_as_the_period(place: Place) -> None:
    small = budget(place)
    spend(place, 8)
    told()
    ends_at = datetime.combine(read_budget_states([small])[0].end, time(), UTC)
    assert {notice.again_until for notice in ToldNotice.objects.all()} == {ends_at}


def test_a_soft_budget_of_a_person_is_told_once_and_leads_to_the_limits(
    place: Place, browser_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications_budget, "AT_ONCE", 1)
    for unit in (Unit.MONEY, Unit.DEVICE_HOURS):
        budget(place, level=Level.USER, owner_id=place.owner.pk, unit=unit, amount=Decimal(0))
    assert told() == [(place.owner, "money_nearly_spent"), (place.owner, "hours_nearly_spent")]
    assert len(told()) == 2
    browser: Client = browser_of(place.owner)
    words = browser.get("/notifications/").content.decode()
    assert f"The budget of {place.owner.email} is nearly used up: 0.00 of 0.00 left until" in words
    assert 'href="/profile/"' in words


def test_money_has_the_currency_of_the_installation_wherever_it_is_told(place: Place, settings: Any) -> None:
    settings.BERTH_CURRENCY = "EUR"
    Price.objects.create(slot_name="cuda", since=today() - timedelta(days=40), per_hour=Decimal("125.5"))
    hard = budget(place, unit=Unit.MONEY, amount=Decimal("1255.00"), is_hard=True)
    spend(place, 9)
    assert told() == [(place.owner, "money_nearly_spent")]
    notice = Notification.objects.get()
    assert "€125.50 of €1,255.00 left until" in notification_text(notice)
    with override("ko"):
        assert "€1,255.00" in notification_text(notice)

    [state] = read_budget_states([hard])
    assert "€125.50 of €1,255.00 left" in budget_warning(state)
    client = api_client(place.owner)
    [row] = client.get("/api/v1/budgets/").json()["results"]
    assert (row["amount"], row["currency"]) == ("1255.00", "EUR")
    page = browser_of(place.owner).get("/profile/").content.decode()
    assert "€1,129.50" in page
    spend(place, 10)
    assert any("all of €1,255.00" in sentence for sentence in budget_refusals(read_budget_states([hard])))

    overseer = make_user(role=Role.SUPERADMIN)
    assert "€125.50" in browser_of(overseer).get(reverse("prices")).content.decode()
    assert api_client(overseer).get("/api/v1/prices/").json()["results"][0]["currency"] == "EUR"
    settings.BERTH_CURRENCY = ""
    assert "125.50 of 1255.00 left until" in notification_text(notice)
