"""Processes of the chaos. Each does at random what people, administrators and machines do, and between that the background work
that comes of it, until it is killed.

`python -m tests.chaos.worker SEED` has all in memory that they need, the world too, and no connection; each line `NUMBER LIFE` of its standard
input is one more process, whose id it prints: `born NUMBER PID`. No other process gets that id before the next of that number is
asked for. What nobody expects is a line `error: …`.
"""

import logging
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import tests.chaos.one_installation  # noqa: F401 -- Django, before any model  # isort: skip
from django.conf import settings
from django.db import connection, transaction

from accounts.models import ResourcePolicy
from accounts.policies.service import update_policy
from agents.models import ResourceGroup
from agents.resource_groups.service import access_limit, save_limit
from agents.runtime.port import RuntimeFault
from common import clock
from common.actors import SYSTEM, Actor
from common.errors import BerthError
from common.messaging.redis import client
from portal.processes.tuning import freeze_startup_objects
from scheduler.commit.plan_commit import GroupBusy, StalePlan
from sessions_app.admission.service import enqueue_batch, enqueue_session
from sessions_app.core.array_spec import check_array
from sessions_app.core.container_spec import container_name
from sessions_app.core.placement import PlacementRule
from sessions_app.core.request import SessionRequest, parse_request
from sessions_app.core.states import Reason, Status
from sessions_app.models import (
    ComputeSession,
    ComputeSessionQuerySet,
    Kernel,
    SessionArray,
    SessionTransition,
)
from sessions_app.queue.arrays import terminate_array
from sessions_app.termination.service import terminate_session
from tests.chaos.world import GROUP_LIMITS, LIMITS, World, enter, silence

WEIGHTS = {
    "submit": 14, "submit_alike": 12, "submit_array": 16, "cancel": 10, "cancel_array": 6, "finish": 14, "finish_many": 20,
    "limit": 7, "limit_group": 2, "lose": 1,
}  # fmt: skip
"""Nearly half of all calls act on one session each; the others on up to hundreds."""
COUNTS = "berth:simulated:{installation}:counts"
BEAT = "berth:simulated:{installation}:beat"
BEAT_MS, BEAT_SHARE, ROUND_MS = 1000, 2, 10_000
"""So often the clock asks for what a portal does by itself, but for half of one process at most; whoever is free does it. A
round that has not ended by then is asked for again."""
TASKS_PER_CALL = 5
LOST = 0.05
"""Of all messages."""
SIZES = (
    (1, "1g", 0), (1, "1g", 0.25), (1, "2g", 0.5), (2, "4g", 0), (4, "16g", 1), (8, "32g", 2), (16, "64g", 4), (64, "128g", 8),
)  # fmt: skip
HOW_OFTEN = (10, 3, 3, 6, 4, 2, 1, 0.2)
MANY = ((2, 20), (50, 150), (150, 400))
AT_ONCE = 500
BESIDE_OTHERS, GROUPS_OF_A_PERSON = 0.15, 20
REFUSALS = (BerthError, RuntimeFault, GroupBusy, StalePlan, ComputeSession.DoesNotExist)


Found = TypeVar("Found")


class Worker:
    def __init__(self, world: World, chance: random.Random, mark: str) -> None:
        self._world, self._chance, self._mark = world, chance, mark
        self._number = 0
        self._counts = COUNTS.format(installation=settings.BERTH_INSTALLATION)
        self._beat = BEAT.format(installation=settings.BERTH_INSTALLATION)

    def run(self, nursery: int) -> None:
        """One call after the other, as long as the run goes on."""
        while os.getppid() == nursery:  # nobody is left over from a run that was itself killed
            [kind] = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            self._call(kind)
            waiting = self._world.sent()
            for _ in range(min(waiting, self._chance.randrange(1, 2 * TASKS_PER_CALL + waiting // 8))):
                is_twice = self._chance.random() < 0.05
                self._try(partial(self._world.run_task, self._chance, is_twice=is_twice))
            if client().set(self._beat, 1, nx=True, px=ROUND_MS):
                began_at = time.monotonic()
                self._try(self._world.look_after)
                took_ms = int(1000 * (time.monotonic() - began_at))
                client().set(self._beat, 1, px=max(BEAT_MS, (BEAT_SHARE - 1) * took_ms))

    def _call(self, kind: str) -> None:
        """Counted as a call, and as many operations as sessions it was done to."""
        done = self._try(getattr(self, kind))
        with client().pipeline(transaction=False) as told:
            told.hincrby(self._counts, f"calls {kind}")
            if done is None:
                told.hincrby(self._counts, f"refused {kind}")
            else:
                told.hincrby(self._counts, f"operations {kind.partition('_')[0]}", done)
            told.execute()

    def _try(self, act: Callable[[], int | None]) -> int | None:
        """What it comes to, nothing if it was refused: what may be so in a portal may be so here. Anything else is a fault of
        Berth."""
        try:
            return act() or 0
        except REFUSALS:
            return None
        except Exception:  # noqa: BLE001 -- whatever it is, it is news
            lines = traceback.format_exc().strip().splitlines()
            os.write(1, f"error: {' / '.join(line.strip() for line in lines[-14:])[:3500]}\n".encode())
            return None

    def submit(self) -> int:
        actor, request = self._asked()
        return self._acknowledged([enqueue_session(actor=actor, request=request).pk])

    def submit_alike(self) -> int:
        actor, request = self._asked()
        count = self._chance.randint(*self._chance.choice(MANY))
        alike = [replace(request, name=f"{request.name}-{number}") for number in range(count)]
        return self._acknowledged(enqueue_batch(actor=actor, requests=alike))

    def submit_array(self) -> int:
        actor, request = self._asked()
        count = self._chance.randint(*self._chance.choice(MANY))
        at_once = f"%{self._chance.randint(1, count)}" if self._chance.random() < 0.7 else ""
        asked = replace(request, array=check_array(f"1-{count}{at_once}"))
        first = enqueue_session(actor=actor, request=asked)
        elements = ComputeSession.objects.filter(array_id=first.array_id)
        return self._acknowledged(list(elements.values_list("pk", flat=True)))

    def _asked(self) -> tuple[Actor, SessionRequest]:
        """What anybody may ask for; some start after others, some are tried again."""
        world, self._number = self._world, self._number + 1
        actor = self._chance.choice(world.actors)
        [(cores, mem, gpus)] = self._chance.choices(SIZES, HOW_OFTEN)
        body = {
            "name": f"{self._mark}-{self._number}",
            "project": world.projects[actor.user_id or 0],
            "image": world.image,
            "resource_group": self._chance.choice(world.groups).name,
            "type": "batch",
            "command": "chaos",
            "resources": {"cpu": cores, "mem": mem, **({"gpu": gpus} if gpus else {})},
            "dependencies": self._dependencies(actor),
            **self._beside_others(),
            "max_retries": self._chance.choice((0, 0, 0, 1, 2)),
            "requeues": self._chance.random() < 0.2,
        }
        return actor, parse_request(body)

    def _beside_others(self) -> dict[str, str]:
        if self._chance.random() >= BESIDE_OTHERS:
            return {}
        rule, group = self._chance.choice(list(PlacementRule)), self._chance.randrange(GROUPS_OF_A_PERSON)
        return {"placement_rule": rule, "placement_group": f"group-{group}"}

    def _acknowledged(self, ids: list[UUID]) -> int:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_acknowledged SELECT unnest(%s::uuid[])", [ids])
        return len(ids)

    def _dependencies(self, actor: Actor) -> list[dict[str, str]]:
        if self._chance.random() >= 0.2:
            return []
        own = ComputeSession.objects.filter(owner_id=actor.user_id).order_by("-created_at")
        arrays = SessionArray.objects.filter(owner_id=actor.user_id)  # the newest come first
        found = [*own.values_list("pk", flat=True)[:10], *arrays.values_list("pk", flat=True)[:3]]
        chosen = self._chance.sample(found, k=min(len(found), self._chance.randint(1, 2)))
        return [
            {"session": str(pk), "when": self._chance.choice(("success", "any", "failure"))} for pk in chosen
        ]

    def cancel(self) -> int:
        actor = self._chance.choice(self._world.actors)
        found = self._any_of(list(_live_of(actor).order_by().values_list("pk", flat=True)[:AT_ONCE]))
        if found is None:
            return 0
        terminate_session(actor=actor, session_id=found)
        return 1

    def cancel_array(self) -> int:
        """All that is left of an array."""
        actor = self._chance.choice(self._world.actors)
        arrays = _live_of(actor).exclude(array=None).order_by().values_list("array_id", flat=True)
        found = self._any_of(list(dict.fromkeys(arrays[:AT_ONCE])))
        if found is None:
            return 0
        began_at = clock.now()
        terminate_array(actor=actor, array_id=found)
        ended = SessionTransition.objects.filter(
            session__array=found, reason=Reason.USER_REQUESTED, happened_at__gte=began_at
        )
        return ended.exclude(to_status=Status.TERMINATED).count()

    def finish(self) -> int:
        """The program of a container ends."""
        machine = self._chance.choice(list(self._world.runtimes))
        name = self._any_of(list(self._world.runtimes[machine].state.containers))
        return self._world.finish([(machine, name)], self._exit_code()) if name else 0

    def finish_many(self) -> int:
        """Programs of an array, or of one person, end together."""
        actor = self._chance.choice(self._world.actors)
        running = _live_of(actor).filter(status=Status.RUNNING).order_by()
        if self._chance.random() < 0.6:
            arrays = running.exclude(array=None).values_list("array_id", flat=True)
            running = running.filter(array=self._any_of(list(dict.fromkeys(arrays[:AT_ONCE]))))
        kernels = Kernel.objects.filter(session__in=running.values("pk")[:AT_ONCE]).order_by()
        places = kernels.values_list("agent__name", "pk", "attempt")
        chosen = [(machine, container_name(pk, attempt)) for machine, pk, attempt in places if machine]
        return self._world.finish(chosen, self._exit_code())

    def _exit_code(self) -> int:
        return self._chance.choice((0, 0, 0, 1))

    def limit(self) -> int:
        name = self._chance.choice(list(LIMITS))
        level = self._chance.choice(list(self._world.policies))
        value = self._chance.randint(*LIMITS[name][level])
        policy_id = self._world.policies[level]
        family, _, slot = name.partition(".")
        with transaction.atomic():
            # With the policy locked: the auditor is told at the instant from which it holds, and in the order in which others do.
            policy = ResourcePolicy.objects.select_for_update().get(pk=policy_id)
            slots = {**getattr(policy, f"max_{family}"), slot: value} if slot else {}
            for each, amount in slots.items() or [("", value)]:
                told = f"{family}.{each}" if slot else family
                _tell_limit(f"policy-{policy_id}", told, amount)
            limits: dict[str, object] = {f"max_{family}": slots or value}
            update_policy(actor=SYSTEM, policy_id=policy_id, limits=limits)
        return 1

    def limit_group(self) -> int:
        """What sessions of a group hold together, or those of each person there."""
        group = self._chance.choice(self._world.groups)
        name, kind, slot = self._chance.choice(list(GROUP_LIMITS))
        amount = self._chance.randint(*GROUP_LIMITS[name, kind, slot])
        with transaction.atomic():
            kept = ResourceGroup.objects.select_for_update().get(pk=group.pk)
            limit = access_limit(kept, name)
            _tell_limit(f"group-{group.pk}", f"{name}.{kind}.{slot}", amount)
            changed = limit | {kind: {**limit[kind], slot: amount}}
            save_limit(actor=SYSTEM, group_id=group.pk, limit=changed, instead_of=name)
        return 1

    def lose(self) -> int:
        """A machine falls silent for a while; one in three has died, and comes back with nothing on it."""
        name = self._chance.choice(list(self._world.runtimes))
        silence(name)
        if self._chance.randrange(3) == 0:
            state = self._world.runtimes[name].state
            things: tuple[Any, ...] = (state.containers, state.volumes, state.networks)
            client().delete(*(each.key for each in things))
        return 1

    def _any_of(self, found: Sequence[Found]) -> Found | None:
        return self._chance.choice(found) if found else None


def _tell_limit(whose: str, name: str, amount: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_limits VALUES (%s, %s, %s)", [whose, name, amount])


def _live_of(actor: Actor) -> ComputeSessionQuerySet:
    live: ComputeSessionQuerySet = ComputeSession.objects.live().filter(owner_id=actor.user_id)
    return live


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
    world = enter(settings.BERTH_INSTALLATION)
    world.are_lost = LOST
    freeze_startup_objects()
    nursery, born = os.getpid(), dict[int, int]()
    for line in sys.stdin:
        number, life = map(int, line.split())
        if number in born:
            os.waitpid(born[number], 0)  # killed, or ended by itself: until now its id was nobody else's
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        client().close()
        if child := os.fork():
            born[number] = child
            tell(f"born {number} {child}")
        else:
            chance = random.Random(f"{sys.argv[1]} {number} {life}")
            random.seed(chance.random())
            Worker(world, chance, f"w{number}-{life}").run(nursery)
            return


if __name__ == "__main__":
    main()
