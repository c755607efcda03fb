"""Sample lines of the audit log for `manage.py seed_demo_load`."""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from accounts.models import User
from common import clock
from common.models import AuditEntry

DAYS = 90
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
        recorded_at=now - timedelta(seconds=chance.randrange(DAYS * 24 * 3600)),
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
