"""Budgets count use to the microsecond, and a used-up hard budget refuses new sessions."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from accounts.budgets.selectors import budget_states, find_owner, read_budget_states, today, tomorrow
from accounts.budgets.service import create_budget, delete_budget, delete_price, set_price, update_budget
from accounts.core.budget_arithmetic import HOUR, Period, Unit
from accounts.core.limits import Level
from accounts.core.roles import Role
from accounts.models import Budget, DaySlots, Price
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from common.models import AuditEntry
from scheduler.tick import run_tick
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for, api_client, make_project, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


def budget(place: Place, **changes: Any) -> Budget:
    wanted: dict[str, Any] = {
        "level": Level.USER, "owner_id": place.owner.pk, "unit": Unit.MONEY, "amount": Decimal(10),
        "period": Period.MONTH, "is_hard": True, **changes,
    }  # fmt: skip
    return create_budget(actor=SYSTEM, **wanted)


def held_for(session: ComputeSession, span: timedelta) -> None:
    """As if it held what it holds since so long."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "ALTER TABLE sessions_app_kernelallocation DISABLE TRIGGER USER"
        )  # which refuses updates
        rows = KernelAllocation.objects.filter(kernel__session=session)
        rows.update(held_since=clock.now() - span)
        cursor.execute("ALTER TABLE sessions_app_kernelallocation ENABLE TRIGGER USER")


def spent_by(place: Place) -> float:
    [state] = budget_states([(Level.USER, place.owner.pk)])
    return float(state.spent)


@pytest.mark.usefixtures("standing_clock")
def test_running_sessions_count_until_now_and_ended_ones_for_good(place: Place) -> None:
    Price.objects.create(slot_name="cpu", since=clock.now().date(), per_hour=2)
    soon_gone = budget(place, unit=Unit.DEVICE_HOURS)
    delete_budget(actor=SYSTEM, budget_id=soon_gone.pk)
    budget(place, period=Period.TERM, starts_on=clock.now().date(), ends_on=clock.now().date())
    session = place.run(resources={"cpu": 3, "mem": "1g"})
    midnight = datetime.combine(clock.now().astimezone(UTC).date(), datetime.min.time(), UTC)
    span = min(timedelta(hours=1), clock.now() - midnight)
    held_for(session, span)

    hours = span / timedelta(hours=1)
    assert spent_by(place) == pytest.approx(6 * hours, abs=0.1)
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    assert not KernelAllocation.objects.exists()
    assert spent_by(place) == pytest.approx(6 * hours, abs=0.1)


def test_what_ended_is_kept_for_each_day_to_the_microsecond(place: Place) -> None:
    session = place.run(resources={"cpu": 1, "mem": "1g"})
    held_for(session, timedelta(days=3))
    rows = KernelAllocation.objects.filter(kernel__session=session)
    since = rows[0].held_since
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)

    kept = list(DaySlots.objects.filter(slot_name="cpu").order_by("day").values_list("day", "held"))
    assert len(kept) in {4, 5}, "three days back, and one more where midnight came meanwhile"
    assert [day for day, _held in kept] == [since.date() + timedelta(days=n) for n in range(len(kept))]
    assert [held for _day, held in kept[1:3]] == [1000 * 24 * HOUR] * 2
    next_day = datetime.combine(since.date() + timedelta(days=1), datetime.min.time(), UTC)
    assert kept[0][1] == 1000 * ((next_day - since) // timedelta(microseconds=1))
    assert {row.slot_name for row in DaySlots.objects.all()} == {"cpu", "mem"}
    assert set(DaySlots.objects.values_list("user_id", "project_id")) == {(place.owner.pk, place.project.pk)}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("query", range(3))
def test_a_session_that_ends_while_a_budget_is_read_is_counted_once(query: int) -> None:
    place = make_place()
    budget(place, unit=Unit.MONEY)
    Price.objects.create(slot_name="cpu", since=clock.now().date(), per_hour=1000000)
    session = place.run(resources={"cpu": 3, "mem": "1g"})
    before = spent_by(place)
    seen: list[str] = []

    def end_in_between(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        if len(seen) == query + 1:
            terminate_session(actor=actor_for(place.owner), session_id=session.pk)
            end_session(session.pk)
        return execute(sql, *rest)

    with connection.execute_wrapper(end_in_between):
        [state] = budget_states([(Level.USER, place.owner.pk)])
    assert not KernelAllocation.objects.exists()
    assert before <= float(state.spent) <= spent_by(place), "once: neither left out nor counted twice"


def test_a_hard_budget_that_is_used_up_refuses_and_names_itself(place: Place) -> None:
    running = place.run()
    budget(place, amount=Decimal(0))
    budget(place, level=Level.PROJECT, owner_id=place.project.pk, amount=Decimal(0), unit=Unit.DEVICE_HOURS)
    with pytest.raises(LimitExceeded) as refusal:
        place.enqueue()
    assert f"The budget of {place.owner.email} is used up: all of 0.00." in refusal.value.message
    assert f"The budget of {place.project.name} is used up: all of 0.00 GPU-hours" in refusal.value.message
    running.refresh_from_db()
    assert running.is_running, "it never ends what runs"


def test_a_soft_budget_only_warns(place: Place) -> None:
    budget(place, amount=Decimal(0), is_hard=False)
    place.enqueue()
    [state] = budget_states([(Level.USER, place.owner.pk)])
    assert (state.is_used_up, state.refuses) == (True, False)


@pytest.mark.parametrize("level", [Level.PROJECT, Level.USER])
def test_a_session_that_waits_does_not_start_on_a_budget_that_is_used_up(place: Place, level: Level) -> None:
    waiting = place.enqueue()
    owner = place.project if level is Level.PROJECT else place.owner
    spent = budget(place, level=level, owner_id=owner.pk, amount=Decimal(0))
    run_tick(place.group.pk)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.status_reason) == ("PENDING", "budget_spent")
    assert "is used up. It starts when a new period begins" in str(waiting.status_message)

    delete_budget(actor=SYSTEM, budget_id=spent.pk)
    run_tick(place.group.pk)
    waiting.refresh_from_db()
    assert waiting.status == "SCHEDULED"


def test_permissions_to_set_budgets(place: Place) -> None:
    governor = actor_for(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    central = budget(place)
    wanted: dict[str, Any] = {"unit": Unit.MONEY, "amount": Decimal(1), "period": Period.MONTH}
    own = create_budget(actor=governor, level=Level.USER, owner_id=place.owner.pk, **wanted)
    with pytest.raises(PermissionDenied):
        delete_budget(actor=governor, budget_id=central.pk)
    with pytest.raises(PermissionDenied):
        delete_budget(actor=actor_for(place.owner), budget_id=own.pk)
    with pytest.raises(NotFound):
        delete_budget(actor=actor_for(make_user()), budget_id=own.pk)
    delete_budget(actor=governor, budget_id=own.pk)
    today = clock.now().date()
    for wrong in (
        {"period": Period.TERM},
        {"period": Period.TERM, "starts_on": today, "ends_on": today - timedelta(days=1)},
        {"period": Period.TERM, "starts_on": today, "ends_on": date.max},
        {"starts_on": today},
        {"warn_percent": 0},
        {"amount": Decimal(-1)},
        {"level": Level.DOMAIN, "owner_id": place.project.domain_id},
    ):
        with pytest.raises(InvalidInput):
            budget(place, **wrong)


@pytest.mark.usefixtures("standing_clock")
def test_budgets_are_changed_by_permitted_users_only(place: Place) -> None:
    governor = actor_for(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    today = clock.now().astimezone(UTC).date()
    wanted: dict[str, Any] = {"unit": Unit.MONEY, "amount": Decimal(1), "period": Period.MONTH}
    own = create_budget(actor=governor, level=Level.USER, owner_id=place.owner.pk, **wanted)
    term = {
        "period": Period.TERM,
        "starts_on": today,
        "ends_on": today,
        "amount": Decimal(2),
        "is_hard": True,
    }
    update_budget(actor=governor, budget_id=own.pk, changes=term)
    [state] = budget_states([(Level.USER, place.owner.pk)])
    assert (state.amount, state.is_hard, state.first, state.last) == (2, True, today, today)
    entry = AuditEntry.objects.filter(action="accounts.update_budget").latest("pk")
    assert entry.changes["amount"] == ["1.00", "2.00"]

    for stranger, refusal in ((place.owner, PermissionDenied), (make_user(), NotFound)):
        with pytest.raises(refusal):
            update_budget(actor=actor_for(stranger), budget_id=own.pk, changes={"is_hard": False})
    with pytest.raises(InvalidInput):
        update_budget(actor=governor, budget_id=own.pk, changes={"ends_on": None})
    update_budget(actor=SYSTEM, budget_id=own.pk, changes={"period": Period.QUARTER})
    with pytest.raises(PermissionDenied, match="A superadmin set the budget"):
        update_budget(actor=governor, budget_id=own.pk, changes={"is_hard": False})


def test_owners_are_named_as_people_write_them(place: Place) -> None:
    project, domain = place.project, place.project.domain
    for text in (project.name, f" {project.name} ", f"{domain.name}/{project.name}"):
        assert find_owner(SYSTEM, text) == project
    assert find_owner(SYSTEM, place.owner.email.upper()) == place.owner
    make_project(name=project.name)
    with pytest.raises(Conflict, match=f"like {domain.name}/{project.name}"):
        find_owner(SYSTEM, project.name)
    for text in ("", "nobody@berth.example", "no-project", f"other/{project.name}"):
        with pytest.raises(NotFound):
            find_owner(SYSTEM, text)


@pytest.mark.usefixtures("standing_clock")
def test_past_use_keeps_its_price(place: Place) -> None:
    day = today()
    for begun in (day - timedelta(days=1), day):
        with pytest.raises(InvalidInput, match="What was held keeps its price: begin tomorrow or later"):
            set_price(actor=SYSTEM, slot_name="cpu", since=begun, per_hour=Decimal(1))
    with pytest.raises(InvalidInput):
        set_price(actor=SYSTEM, slot_name="CPU", since=tomorrow(), per_hour=Decimal(1))
    with pytest.raises(InvalidInput):
        set_price(actor=SYSTEM, slot_name="cpu", since=tomorrow(), per_hour=Decimal(-1))
    with pytest.raises(PermissionDenied):
        set_price(actor=actor_for(place.owner), slot_name="cpu", since=tomorrow(), per_hour=Decimal(1))
    for value in (1, 2):
        price = set_price(actor=SYSTEM, slot_name="cpu", since=tomorrow(), per_hour=Decimal(value))
    for begun in (day - timedelta(days=9), day):
        old = Price.objects.create(slot_name="cpu", since=begun, per_hour=1)
        with pytest.raises(InvalidInput):
            delete_price(actor=SYSTEM, price_id=old.pk)
    with pytest.raises(PermissionDenied):
        delete_price(actor=actor_for(place.owner), price_id=price.pk)
    delete_price(actor=SYSTEM, price_id=price.pk)
    with pytest.raises(NotFound):
        delete_price(actor=SYSTEM, price_id=price.pk)


@pytest.mark.usefixtures("standing_clock")
def test_terms_that_are_over_stay_in_the_list(place: Place) -> None:
    today = clock.now().astimezone(UTC).date()
    for start in (-20, 0, 20):
        first = today + timedelta(days=start)
        budget(place, period=Period.TERM, starts_on=first, ends_on=first + timedelta(days=9))
    api = api_client(place.owner)

    def listed(query: str) -> list[bool]:
        return [each["is_current"] for each in api.get(f"/api/v1/budgets/{query}").json()["results"]]

    assert listed("") == [False, True, False]
    assert listed("?current=true") == [True]
    assert listed("?current=false") == [False, False]
    assert (listed("?level=project"), len(listed(f"?level=user&user={place.owner.pk}"))) == ([], 3)
    assert len(budget_states([(Level.USER, place.owner.pk)])) == 1


def test_prices_and_periods_that_change_between_days_are_told_apart(place: Place) -> None:
    """Days are added up by the database, and never across the beginning of a period or a price."""
    today = clock.now().astimezone(UTC).date()
    for age in range(10):
        DaySlots.objects.create(
            day=today - timedelta(days=age), project_id=place.project.pk, user_id=place.owner.pk, slot_name="cuda",
            held=(age + 1) * 1000 * HOUR,
        )  # fmt: skip
    for age, price in ((9, 1), (6, 10), (2, 100)):
        Price.objects.create(slot_name="cuda", since=today - timedelta(days=age), per_hour=price)
    spans = ((9, 0), (7, 5), (4, 4), (3, 1))
    for first, last in spans:
        days = {"starts_on": today - timedelta(days=first), "ends_on": today - timedelta(days=last)}
        budget(place, period=Period.TERM, **days)
    priced = [(age + 1) * (100 if age <= 2 else 10 if age <= 6 else 1) for age in range(10)]
    states = read_budget_states(Budget.objects.order_by("pk"))
    assert [state.spent for state in states] == [sum(priced[last : first + 1]) for first, last in spans]
