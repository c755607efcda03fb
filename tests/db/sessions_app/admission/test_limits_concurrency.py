"""A thousand concurrent requests against a limit of ten: exactly ten are accepted."""

import threading
from collections.abc import Callable
from itertools import count

import pytest
from django.db import connections

from accounts.credentials.keypairs import create_keypair
from accounts.policies.service import LimitedObject
from common.actors import Actor, ActorKind
from common.errors import LimitExceeded
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for, make_user
from tests.factories_limits import limit, use_of
from tests.factories_sessions import Place

pytestmark = [pytest.mark.walk, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
WORKERS, REQUESTS, MOST = 8, 1000, 10
COUNTED = {
    "max_sessions": MOST,
    "max_pending_sessions": MOST,
    "max_pending_slots": {"cpu": MOST * 1000},
}


def programs(place: Place, level: str) -> list[Actor]:
    """One for each worker: of one token where that is limited, of one person, or of as many people as there are workers."""
    people = [place.owner] * WORKERS
    if level in ("domain", "project"):
        people = [make_user(member_of=place.project) for _ in range(WORKERS)]
    keypairs = {person.pk: create_keypair(actor=actor_for(person), name="robot")[0] for person in people}
    return [
        Actor(
            kind=ActorKind.TOKEN,
            user_id=person.pk,
            label=person.email,
            domain_id=person.domain_id,
            keypair_id=keypairs[person.pk].pk,
        )
        for person in people
    ]


def by_workers(
    actors: list[Actor], work: Callable[[Actor, int], None], times: int = REQUESTS
) -> list[Exception]:
    """Have `work` done this often, each time by whichever worker is free; what was raised that is no limit."""
    numbers, wrong = count(), []
    gate = threading.Barrier(len(actors))

    def run(actor: Actor) -> None:
        gate.wait(timeout=30)
        try:
            while (number := next(numbers)) < times:
                try:
                    work(actor, number)
                except LimitExceeded:
                    continue
        except Exception as error:  # noqa: BLE001
            wrong.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(actor,)) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def target_of(place: Place, actor: Actor, level: str) -> LimitedObject:
    return {
        "domain": lambda: place.project.domain,
        "project": lambda: place.project,
        "user": lambda: place.owner,
        "keypair": lambda: place.owner.keypairs.get(pk=actor.keypair_id),
    }[level]()


@pytest.mark.parametrize("level", ["domain", "project", "user", "keypair"])
def test_of_a_thousand_requests_exactly_as_many_as_may_are_accepted(place: Place, level: str) -> None:
    actors = programs(place, level)
    target = target_of(place, actors[0], level)
    limit(target, max_sessions=MOST)

    def submit(actor: Actor, number: int) -> None:
        enqueue_session(actor=actor, request=parse_request(place.request(name=f"run-{number}")))

    assert by_workers(actors, submit) == []
    assert ComputeSession.objects.live().count() == MOST
    assert use_of(target)["sessions"] == MOST


@pytest.mark.parametrize("counted", COUNTED)
def test_the_database_alone_lets_no_more_in_than_may(
    place: Place, counted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is refused in words beforehand: every request gets as far as its row."""
    monkeypatch.setattr("sessions_app.admission.decide.check_limits", lambda *_: None)
    limit(place.project, **{counted: COUNTED[counted]})

    def submit(actor: Actor, number: int) -> None:
        enqueue_session(actor=actor, request=parse_request(place.request(name=f"run-{number}")))

    assert by_workers(programs(place, "project"), submit, times=40) == []
    assert ComputeSession.objects.live().count() == MOST


def test_with_ends_in_between_the_limit_holds_and_the_count_is_exact(place: Place) -> None:
    limit(place.project, max_sessions=MOST)
    most_seen = []

    def submit_or_end(actor: Actor, number: int) -> None:
        if number % 3:
            enqueue_session(actor=actor, request=parse_request(place.request(name=f"run-{number}")))
        elif session := ComputeSession.objects.live().filter(owner_id=actor.user_id).first():
            terminate_session(actor=actor, session_id=session.pk)
        most_seen.append(ComputeSession.objects.live().count())

    assert by_workers(programs(place, "project"), submit_or_end, times=120) == []
    assert max(most_seen) <= MOST
    assert use_of(place.project).get("sessions", 0) == ComputeSession.objects.live().count()
