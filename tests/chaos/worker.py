"""Processes of the chaos. Each does at random what people, administrators and machines do, and between that the background work
that comes of it, until it is killed.

`python -m tests.chaos.worker SEED` has all in memory that they need and no connection; each line `NUMBER LIFE` of its standard
input is one more process, whose id it prints: `born NUMBER PID`. What nobody expects is a line `error: …`.
"""

import logging
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import tests.chaos.one_installation  # noqa: F401 -- Django, before any model  # isort: skip
from django.conf import settings
from django.db import connection

from accounts.limiting import update_policy
from accounts.policies import ResourcePolicy
from agents.runtime.base import RuntimeFault
from common.actors import SYSTEM, Actor
from common.errors import BerthError
from common.redis import client
from scheduler.commit import GroupBusy, StalePlan
from sessions_app.array_rules import check_array
from sessions_app.models import ComputeSession, Kernel
from sessions_app.requests import parse_request
from sessions_app.services import enqueue_alike, enqueue_session, terminate_session
from sessions_app.states import Status
from tests.chaos.world import LIMITS, SILENT_FOR_S, World, enter, silence_key

WEIGHTS = {"submit": 40, "cancel": 18, "finish": 30, "limit": 8, "lose": 1}
COUNTS = "berth:simulated:{installation}:counts"
TASKS_PER_OPERATION = 5
LOOKED_AFTER_EVERY = 60
SIZES = (
    (1, "1g", 0),
    (1, "1g", 0.25),
    (1, "2g", 0.5),
    (2, "4g", 0),
    (4, "8g", 1),
    (8, "16g", 2),
    (16, "32g", 4),
)


Found = TypeVar("Found")


class Worker:
    def __init__(self, world: World, chance: random.Random, mark: str) -> None:
        self._world, self._chance, self._mark = world, chance, mark
        self._number = 0

    def run(self) -> None:
        """One operation after the other, as long as the run goes on."""
        counts = COUNTS.format(installation=settings.BERTH_INSTALLATION)
        parent = os.getppid()
        while os.getppid() == parent:  # nobody is left over from a run that was itself killed
            [kind] = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            client().hincrby(counts, kind if self._try(getattr(self, kind)) else f"{kind} refused")
            for _ in range(self._chance.randrange(1, 2 * TASKS_PER_OPERATION)):
                is_twice = self._chance.random() < 0.05
                self._try(partial(self._world.run_task, self._chance, is_twice=is_twice))
            if self._chance.randrange(LOOKED_AFTER_EVERY) == 0:
                self._try(self._world.look_after)

    def _try(self, act: Callable[[], object]) -> bool:
        """Whether it was done; what may be refused in a portal may be so here. Anything else is a fault of Berth."""
        try:
            act()
        except (BerthError, RuntimeFault, GroupBusy, StalePlan):
            return False
        except ComputeSession.DoesNotExist:
            return False
        except Exception:  # noqa: BLE001 -- whatever it is, it is news
            lines = traceback.format_exc().strip().splitlines()
            os.write(1, f"error: {' / '.join(line.strip() for line in lines[-14:])[:3500]}\n".encode())
            return False
        return True

    def submit(self) -> None:
        """One session, several alike, or an array; some start after others, some are tried again."""
        world, self._number = self._world, self._number + 1
        actor = self._chance.choice(world.actors)
        cores, mem, gpus = self._chance.choice(SIZES)
        request = parse_request(
            {
                "name": f"{self._mark}-{self._number}",
                "project": world.projects[actor.user_id or 0],
                "image": world.image,
                "resource_group": self._chance.choice(world.groups).name,
                "type": "batch",
                "command": "chaos",
                "resources": {"cpu": cores, "mem": mem, **({"gpu": gpus} if gpus else {})},
                "dependencies": self._dependencies(actor),
                "max_retries": self._chance.choice((0, 0, 0, 1, 2)),
                "requeues": self._chance.random() < 0.2,
            }
        )
        count, kind = self._chance.randint(2, 6), self._chance.random()
        if kind < 0.15:
            alike = [replace(request, name=f"{request.name}-{number}") for number in range(count)]
            ids = enqueue_alike(actor=actor, requests=alike)
        elif kind < 0.3:
            asked = check_array(f"1-{count}%{self._chance.randint(1, count)}")
            first = enqueue_session(actor=actor, request=replace(request, array=asked))
            ids = list(ComputeSession.objects.filter(array_id=first.array_id).values_list("pk", flat=True))
        else:
            ids = [enqueue_session(actor=actor, request=request).pk]
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_acknowledged SELECT unnest(%s::uuid[])", [ids])

    def _dependencies(self, actor: Actor) -> list[dict[str, str]]:
        if self._chance.random() >= 0.2:
            return []
        own = ComputeSession.objects.filter(owner_id=actor.user_id).order_by("-created_at")
        found = list(own.values_list("pk", flat=True)[:10])
        chosen = self._chance.sample(found, k=min(len(found), self._chance.randint(1, 2)))
        return [
            {"session": str(pk), "when": self._chance.choice(("success", "any", "failure"))} for pk in chosen
        ]

    def cancel(self) -> None:
        live = ComputeSession.objects.live().order_by().values_list("pk", "owner_id")
        if found := self._any_of(list(live[:200])):
            actor = next(each for each in self._world.actors if each.user_id == found[1])
            terminate_session(actor=actor, session_id=found[0])

    def finish(self) -> None:
        """The program of a container ends."""
        running = Kernel.objects.filter(session__status=Status.RUNNING).select_related("agent").order_by()
        if kernel := self._any_of(list(running[:200])):
            runtime = self._world.runtimes[kernel.placed_agent.name]
            runtime.finish(kernel.container_name, exit_code=self._chance.choice((0, 0, 1)))

    def limit(self) -> None:
        name = self._chance.choice(list(LIMITS))
        level = self._chance.choice(list(self._world.policies))
        value = self._chance.randint(*LIMITS[name][level])
        policy_id = self._world.policies[level]
        family, _, slot = name.partition(".")
        slots = {**_slots_of(policy_id, family), slot: value} if slot else {}
        with connection.cursor() as cursor:  # before it holds: the auditor must not know too little
            for each, amount in slots.items() or [("", value)]:
                told = f"{family}.{each}" if slot else family
                cursor.execute("INSERT INTO chaos_limits VALUES (%s, %s, %s)", [policy_id, told, amount])
        limits: dict[str, object] = {f"max_{family}": slots or value}
        update_policy(actor=SYSTEM, policy_id=policy_id, limits=limits)

    def lose(self) -> None:
        """A machine falls silent for a while; one in three has died, and comes back with nothing on it."""
        name = self._chance.choice(list(self._world.runtimes))
        client().set(silence_key(name), 1, ex=SILENT_FOR_S)
        if self._chance.randrange(3) == 0:
            shelf = self._world.runtimes[name].shelf
            for things in (shelf.containers, shelf.volumes, shelf.networks):
                for thing in list(things):
                    things.pop(thing, None)

    def _any_of(self, found: Sequence[Found]) -> Found | None:
        return self._chance.choice(found) if found else None


def _slots_of(policy_id: int, family: str) -> dict[str, int]:
    column = f"max_{family}"
    return dict(ResourcePolicy.objects.values_list(column, flat=True).get(pk=policy_id))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        number, life = map(int, line.split())
        if child := os.fork():
            tell(f"born {number} {child}")
        else:
            chance = random.Random(f"{sys.argv[1]} {number} {life}")
            Worker(enter(settings.BERTH_INSTALLATION), chance, f"w{number}-{life}").run()


if __name__ == "__main__":
    main()
