"""Measure accepted requests for sessions per second: by the service, and by REST in one web process.

PEOPLE users of one project submit at once, each over a connection and with a token of its own.
Nothing places the sessions, so that admission alone is measured. Load, web process and PostgreSQL
share the machine.
"""

import contextlib
import http.client
import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections

from accounts.models import User
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from tests import factories
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_below, say
from tests.bench.gateway_stage import web_process
from tests.bench.own_django import own_database
from tests.factories import actor_for
from tests.factories_sessions import Place, make_place

PEOPLE, REQUESTS, WARM_UP, ALONE = 8, 400, 80, 50
ACCEPTED_PER_S = 100
REST, SERVICE = f"accepted by REST, {PEOPLE} connections", f"accepted by the service, {PEOPLE} threads"
Submit = Callable[[], object]
_numbers = itertools.count(1)


def bench(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)
    with contextlib.ExitStack() as cleanup:
        environment = cleanup.enter_context(own_database())
        place = make_place()
        service = Service(place)
        rest = Rest(place, *cleanup.enter_context(web_process(environment)))
        say("warming up")
        service.accepted_per_s(WARM_UP)
        rest.accepted_per_s(WARM_UP)
        measures = [
            Measure(REST, "1/s", rest.accepted_per_s, target=never_below(ACCEPTED_PER_S)),
            Measure(SERVICE, "1/s", service.accepted_per_s, target=never_below(ACCEPTED_PER_S)),
            Measure("processor time by REST, web process", "ms", rest.processor_ms),
            Measure("processor time by the service", "ms", service.processor_ms),
        ]
        return measure_in_turns(measures, options)


@dataclass(frozen=True, slots=True)
class Service:
    """Submits in threads of this process, one for each person."""

    place: Place

    def accepted_per_s(self, requests: int = REQUESTS) -> float:
        return per_s([self.submit_of(new_person(self.place)) for _ in range(PEOPLE)], requests)

    def processor_ms(self) -> float:
        """Return this process's processor time for a request, one after another."""
        submit = self.submit_of(new_person(self.place))
        began_at = time.process_time()
        repeat(submit, ALONE)
        return (time.process_time() - began_at) * 1000 / ALONE

    def submit_of(self, user: User) -> Submit:
        actor = actor_for(user)
        return lambda: enqueue_session(actor=actor, request=parse_request(new_request(self.place)))


@dataclass(frozen=True, slots=True)
class Rest:
    """Submits over HTTP, on one connection and with one token for each person."""

    place: Place
    port: int
    process_id: int

    def accepted_per_s(self, requests: int = REQUESTS) -> float:
        return per_s([self.submit_of(new_person(self.place)) for _ in range(PEOPLE)], requests)

    def processor_ms(self) -> float:
        """Return the web process's processor time for a request, one after another."""
        submit = self.submit_of(new_person(self.place))
        began_at = processor_s(self.process_id)
        repeat(submit, ALONE)
        return (processor_s(self.process_id) - began_at) * 1000 / ALONE

    def submit_of(self, user: User) -> Submit:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {
            "Host": urlsplit(settings.BERTH_URL).netloc,
            "Authorization": f"Bearer {factories.make_token(user)}",
            "Content-Type": "application/json",
        }

        def submit() -> None:
            connection.request("POST", "/api/v1/sessions/", json.dumps(new_request(self.place)), headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 201:
                raise SystemExit(f"The request answered {answer.status}: {body[:300]!r}")

        return submit


def new_person(place: Place) -> User:
    """Return a user without sessions, whose policy does not limit a round."""
    return factories.make_user(member_of=place.project)


def repeat(submit: Submit, times: int) -> None:
    for _ in range(times):
        submit()


def new_request(place: Place) -> dict[str, object]:
    return place.request(name=f"submit-{next(_numbers)}")


def per_s(submits: Sequence[Submit], requests: int) -> float:
    """Return requests per second, with one thread for each of `submits`."""

    def work(submit: Submit) -> None:
        repeat(submit, requests // len(submits))
        connections.close_all()

    with ThreadPoolExecutor(len(submits)) as threads:
        began_at = time.perf_counter()
        list(threads.map(work, submits))
        return requests / (time.perf_counter() - began_at)


def processor_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
