"""The end of a chaos run: without new requests and faults, all work ends and nothing is left."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable

from django.db.models import Count

from accounts.models import ResourcePolicy
from sessions_app.core.container_spec import container_name
from sessions_app.core.states import LIVE, Status
from sessions_app.models import ComputeSession, Kernel
from tests.chaos import world
from tests.chaos.auditor import STUCK_AFTER_ROUNDS, auditor
from tests.chaos.worker import REFUSALS

STUCK_AFTER_S = 120.0


def drain(installation: str) -> list[str]:
    """What is stuck: while nothing else is done, nothing ended for so long and so many rounds."""
    one = world.enter(installation)
    for policy in one.policies.values():
        _lift_limits(policy)
    chance, live, rounds, changed_at = random.Random(0), -1, 0, time.monotonic()
    while left := ComputeSession.objects.filter(status__in=LIVE).count():
        if left != live:
            live, rounds, changed_at = left, 0, time.monotonic()
        rounds += 1
        if rounds > STUCK_AFTER_ROUNDS and time.monotonic() > changed_at + STUCK_AFTER_S:
            rows = ComputeSession.objects.filter(status__in=LIVE)
            return [f"stuck: {row}" for row in rows.values_list("pk", "status", "status_message")[:20]]
        _may_be_refused(one.look_after)
        while one.sent():
            _may_be_refused(lambda: one.run_task(chance))
        running = Kernel.objects.filter(session__status=Status.RUNNING).order_by()
        places = running.values_list("agent__name", "pk", "attempt")
        one.finish([(machine, container_name(pk, attempt)) for machine, pk, attempt in places if machine], 0)
        time.sleep(0.2)
    world.wait_for_the_silent()
    for _ in range(3):  # what lost machines still have is reaped
        _may_be_refused(one.look_after)
    return []


def last_look(environment: dict[str, str]) -> list[str]:
    """The whole history once more; nothing is held, used or there any more."""
    os.environ["DATABASE_URL"] = environment["DATABASE_URL"]
    one = auditor()
    wrong = [f"{kind}: {row}" for kind, row in one.look(at_all=True)]
    with one.database.cursor() as cursor:
        for what, question in (
            ("held by nobody", "SELECT count(*) AS n FROM sessions_app_kernelallocation"),
            ("occupied by nobody", "SELECT count(*) AS n FROM agents_agentslot WHERE occupied <> 0"),
            (
                "used by nobody",
                "SELECT count(*) AS n FROM accounts_limituse WHERE used <> 0 AND resource ~ '(sessions|slots.*)$'",
            ),
        ):
            row = cursor.execute(question).fetchone()
            wrong += [f"stuck: {row['n']} {what}"] if row and row["n"] else []
    one.database.close()
    left = one.containers()
    return wrong + ([f"stuck: {len(left)} containers are left"] if left else [])


def ends() -> Counter[str]:
    """By reason, how many sessions have come to which end, as their rows say; what lives by its status."""
    rows = ComputeSession.objects.order_by().values("status", "status_reason").annotate(count=Count("pk"))
    counted: Counter[str] = Counter()
    for row in rows:
        is_live = row["status"] in LIVE
        counted[row["status"] if is_live else row["status_reason"]] += row["count"]
    return counted


def _may_be_refused(act: Callable[[], object]) -> None:
    try:
        act()
    except REFUSALS:
        return


def _lift_limits(policy_id: int) -> None:
    ResourcePolicy.objects.filter(pk=policy_id).update(
        max_sessions=None, max_pending_sessions=None, max_slots={}, max_pending_slots={}
    )
