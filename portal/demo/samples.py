"""Sample lines of the audit log, and sample budgets with daily usage, for `manage.py seed_demo_load`."""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from accounts.budgets.selectors import today
from accounts.core.budget_arithmetic import GIB, HOUR, Period, Unit
from accounts.models import Budget, DaySlots, Price, Project, User
from common import clock
from common.models import AuditEntry
from common.values.resources import CPU, MEM

AUDIT_DAYS = 90
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    "berth/1.0",
)
# (action, kind of object, outcome); repetitions are weights
ACTS = (
    *[("accounts.sign_in", "accounts.user", "done")] * 4,
    ("accounts.sign_in", "accounts.user", "refused"),
    *[("sessions.enqueue_session", "sessions_app.computesession", "done")] * 6,
    *[("sessions.terminate_session", "sessions_app.computesession", "done")] * 4,
    *[("sessions.open_app", "sessions_app.computesession", "done")] * 6,
    *[("vfolders.write_file", "vfolders.vfolder", "done")] * 6,
    ("requests.refuse", "sessions_app.computesession", "refused"),
    ("requests.refuse", "", "failed"),
)


def make_audit(people: Sequence[User], count: int, chance: random.Random) -> None:
    AuditEntry.objects.bulk_create(_entries(people, count, chance), batch_size=2000)


def _entries(people: Sequence[User], count: int, chance: random.Random) -> Iterator[AuditEntry]:
    now = clock.now()
    for number in range(count):
        yield _entry(chance.choice(people), number, chance, now)


def _entry(person: User, number: int, chance: random.Random, now: datetime) -> AuditEntry:
    action, kind, outcome = chance.choice(ACTS)
    is_own = kind == "accounts.user"
    agent = chance.choice(AGENTS)
    return AuditEntry(
        recorded_at=now - timedelta(seconds=chance.randrange(AUDIT_DAYS * 24 * 3600)),
        actor_kind="user",
        actor_id=person.pk,
        actor_label=person.email,
        domain_id=person.domain_id,
        ip=f"192.0.2.{chance.randrange(1, 255)}",
        via="cli" if agent.startswith("berth/") else "page",
        user_agent=agent,
        request_id=f"{number:012x}",
        action=action,
        target_type=kind,
        target_id=str(person.pk if is_own else number),
        target_label=person.email if is_own else f"load-{number}",
        outcome=outcome,
        reason="" if outcome == "done" else "conflict",
    )


BUDGET_DAYS, BUDGET_EVERY = 45, 25
DAILY_USAGE = {CPU: 4000 * 8 * HOUR, MEM: 16 * GIB * 8 * HOUR, "cuda": 1000 * 8 * HOUR}
PRICES = {CPU: "0.04", MEM: "0.005", "cuda": "1.85"}


def make_budgets(projects: Sequence[Project], people: Sequence[User]) -> None:
    """Create a budget for each project and each 25th user; those users have usage on every day."""
    first = today() - timedelta(days=BUDGET_DAYS)
    Price.objects.bulk_create(
        (Price(slot_name=slot, since=first, per_hour=Decimal(price)) for slot, price in PRICES.items()),
        ignore_conflicts=True,
    )
    busy = people[::BUDGET_EVERY]
    hours, money = Unit.DEVICE_HOURS.value, Unit.MONEY.value
    Budget.objects.bulk_create(
        [
            *(Budget(project=each, unit=hours, amount=500, period=Period.MONTH.value) for each in projects),
            *(
                Budget(user=each, unit=money, amount=2000, period=Period.QUARTER.value, is_hard=True)
                for each in busy
            ),
        ]
    )
    DaySlots.objects.bulk_create(
        (
            DaySlots(
                day=first + timedelta(days=day),
                project_id=projects[number % len(projects)].pk,
                user_id=person.pk,
                slot_name=slot,
                held=held,
            )
            for number, person in enumerate(busy)
            for day in range(BUDGET_DAYS + 1)
            for slot, held in DAILY_USAGE.items()
        ),
        batch_size=2000,
    )
