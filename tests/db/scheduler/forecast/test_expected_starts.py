"""Expected start of pending sessions on the page, over REST and in a check."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from agents.models import Agent, AgentImage, ResourceGroup
from agents.reservations.service import reserve_agents
from common import clock
from common.actors import SYSTEM
from scheduler.snapshot.start_time_model import MAX_AHEAD
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_waiting_session
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from sessions_app.presentation.session import short_reason
from tests.factories import actor_for, api_client
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
ALL = {"cpu": 8, "mem": "1g"}


def expected_start(session: ComputeSession) -> StartRange | None:
    prospect = forecast_waiting_session(actor_for(session.owner), session)
    return prospect and prospect.start_range


def has_image(agent: Agent, place: Place) -> None:
    """It has the image of `place`, which no registry has."""
    AgentImage.objects.create(agent=agent, reference=place.image.reference, image_id="sha256:1")


def ran(place: Place, *minutes: int) -> None:
    """Sessions of the owner that ended after so long."""
    for number in minutes:
        session = place.end(place.run())
        began = session.ended_at - timedelta(minutes=number)  # type: ignore[operator]
        ComputeSession.objects.filter(pk=session.pk).update(started_at=began)


def told(place: Place, session: ComputeSession) -> Any:
    return api_client(place.owner).get(f"/api/v1/sessions/{session.pk}/expected-start/").json()


def test_paused_group_has_no_expected_start(place: Place) -> None:
    place.run(resources=ALL, type="batch", command="sleep 1", timeout_s=3600)
    waiting = place.place(resources=ALL)
    ResourceGroup.objects.update(is_active=False)
    run_tick(place.group.pk)
    assert place.fresh(waiting).status_reason == "group_paused"
    assert expected_start(place.fresh(waiting)) is None
    assert told(place, waiting)["expected_start"] is None


def test_no_expected_start_without_history_and_time_limits(place: Place, browser_of: Any) -> None:
    place.run(resources=ALL)
    waiting = place.place(resources=ALL)
    found = told(place, waiting)
    assert (found["status"], found["expected_start"]) == ("PENDING", None)
    assert "probably" not in browser_of(place.owner).get(f"/sessions/{waiting.pk}/").content.decode()


def test_expected_start_from_history_is_on_the_page(place: Place, browser_of: Any) -> None:
    ran(place, 10, 20, 30, 40, 50)
    place.run(resources=ALL)
    waiting = place.place(resources=ALL)
    found = told(place, waiting)["expected_start"]
    assert 9 * 60 <= found["earliest_s"] <= found["latest_s"] <= 50 * 60
    page: Client = browser_of(place.owner)
    assert found["message"].startswith("It will probably start in")
    assert "It will probably start in" in page.get(f"/sessions/{waiting.pk}/").content.decode()


def test_a_time_limit_is_known_and_those_ahead_wait_first(place: Place) -> None:
    place.run(resources=ALL, timeout_s=600)
    first = place.place(resources=ALL, timeout_s=300, type="batch", command="true")
    second = place.place(resources=ALL)
    one, two = (expected_start(place.fresh(each)) for each in (first, second))
    assert one is not None and (one.earliest_s, 590 <= (one.latest_s or 0) <= 600) == (0, True)  # noqa: PT018
    assert two is not None and two.latest_s is not None and 880 <= two.latest_s <= 910  # noqa: PT018


def test_no_expected_start_unless_waiting_for_capacity(place: Place) -> None:
    running = place.run(timeout_s=600)
    assert expected_start(running) is None
    limit(place.owner, max_slots={"cpu": 1000})
    assert expected_start(place.place()) is None
    held = place.enqueue(start_at=(clock.now() + timedelta(hours=1)).isoformat())
    assert expected_start(held) is None


@pytest.mark.parametrize(("hours", "timeout_s", "starts_h"), [(0, 600, 2), (1, 7200, 3), (1, None, 3)])
def test_session_waiting_for_reserved_agent_reads_when_it_is_free(
    place: Place, hours: int, timeout_s: int | None, starts_h: int
) -> None:
    begins = clock.now() + timedelta(hours=hours)
    reserve_agents(
        actor=SYSTEM,
        group_id=place.group.pk,
        name="Course",
        agents=[place.agent.name],
        starts_at=begins,
        ends_at=begins + timedelta(hours=2),
    )
    waiting = place.place(type="batch", command="true", timeout_s=timeout_s)
    assert waiting.status_reason == "reservation"
    found = expected_start(waiting)
    assert found is not None
    assert starts_h * 3600 - 60 <= found.earliest_s <= found.latest_s <= starts_h * 3600  # type: ignore[operator]


def test_session_waiting_for_own_reservation_reads_its_start(place: Place) -> None:
    begins = clock.now() + timedelta(hours=1)
    reserve_agents(
        actor=SYSTEM,
        group_id=place.group.pk,
        name="Course",
        agents=[place.agent.name],
        starts_at=begins,
        ends_at=begins + timedelta(hours=2),
        grantee=place.project,
    )
    waiting = place.place()
    assert f"A reservation that it may use begins at {begins:%Y-%m-%d %H:%M} UTC" in str(
        waiting.status_message
    )
    short = str(short_reason(waiting.status_reason, waiting.status_message))
    assert short == f"Reserved for it from {begins:%Y-%m-%d %H:%M} UTC"
    found = expected_start(waiting)
    assert found is not None
    assert 3540 <= found.earliest_s <= (found.latest_s or 0) <= 3600
    with clock.frozen_at(begins):
        run_tick(place.group.pk)
    assert place.fresh(waiting).status == Status.SCHEDULED


def test_an_end_that_was_put_off_is_when_it_was_put(place: Place) -> None:
    running = place.run(resources=ALL)
    now = clock.now()
    ComputeSession.objects.filter(pk=running.pk).update(
        lifetime_s=8 * 3600,
        started_at=now - timedelta(hours=8.5),
        deadline_at=now + timedelta(hours=1.5),
    )
    found = expected_start(place.place(resources=ALL))
    assert found is not None
    assert 5390 <= (found.latest_s or 0) <= 5400


def test_what_the_next_tick_places_starts_now(place: Place) -> None:
    assert expected_start(place.enqueue()) == StartRange(0, 10)


def test_capacity_taken_in_the_same_tick_is_not_offered_twice(place: Place) -> None:
    place.enqueue(resources=ALL, timeout_s=600)
    found = expected_start(place.enqueue(resources=ALL))
    assert found is not None
    assert 590 <= (found.latest_s or 0) <= 600


def test_expected_start_is_the_end_of_a_reservation(place: Place) -> None:
    reserve_agents(
        actor=SYSTEM,
        group_id=place.group.pk,
        name="Course",
        agents=[place.agent.name],
        starts_at=None,
        ends_at=clock.now() + timedelta(hours=1),
    )
    waiting = place.place()
    assert waiting.status_reason == "reservation"
    found = expected_start(waiting)
    assert found is not None
    assert 3500 <= found.earliest_s <= (found.latest_s or 0) <= 3600


def test_an_estimate_takes_a_fixed_number_of_queries(place: Place) -> None:
    ran(place, 10, 20, 30, 40, 50)
    place.run(resources=ALL)
    counts = set()
    for _ in range(2):
        waiting = place.place(resources=ALL)
        with CaptureQueriesContext(connection) as queries:
            assert expected_start(waiting) is not None
        counts.add(len(queries))
    assert len(counts) == 1
    assert counts.pop() <= 14


def test_session_waiting_for_a_limit_reads_whom_to_ask(place: Place, browser_of: Any) -> None:
    make_place()
    limit(place.owner, max_slots={"cpu": 1000})
    place.run()
    waiting = place.place()
    found = told(place, waiting)
    who = "An administrator of the domain may raise the limit of a person."
    assert (found["who_may_raise"], found["other_groups"]) == (who, [])  # the limit holds there too
    page = browser_of(place.owner).get(f"/sessions/{waiting.pk}/").content.decode()
    assert who in page


def test_session_waiting_for_capacity_reads_free_capacity_and_other_groups(
    place: Place, browser_of: Any
) -> None:
    elsewhere = make_place()
    has_image(elsewhere.agent, place)
    place.run(resources={"cpu": 7, "mem": "1g"})
    waiting = place.place(resources={"cpu": 2, "mem": "1g"})
    found = told(place, waiting)
    assert (found["best_room"]["cpu"], found["other_groups"]) == (1000, [elsewhere.group.name])
    page = browser_of(place.owner).get(f"/sessions/{waiting.pk}/").content.decode()
    assert f"In the resource group {elsewhere.group.name} it would start now." in page
    assert forecast_waiting_session(actor_for(elsewhere.owner), waiting).other_groups == ()  # type: ignore[union-attr]


def test_session_starting_next_tick_gets_no_other_group(place: Place) -> None:
    make_place()
    found = told(place, place.enqueue())
    assert found["expected_start"] is not None
    assert found["other_groups"] == []


def sentences(browser: Client, *sessions: ComputeSession) -> dict[str, str]:
    """As a page that lists them fetches them: by session."""
    found = browser.get("/queue/starts/", query_params={"session": [str(each.pk) for each in sessions]})
    page = found.content.decode().replace("\N{NO-BREAK SPACE}", " ")
    return dict(re.findall(r'id="start-([0-9a-f-]+)" hx-swap-oob="innerHTML">([^<]*)</div>', page))


def test_lists_fetch_when_those_start_that_one_sees(place: Place, browser_of: Any) -> None:
    place.run(resources=ALL, timeout_s=600)
    first, second = (place.place(resources=ALL, timeout_s=600) for _ in range(2))
    told_together = sentences(browser_of(place.owner), first, second)
    assert told_together == {str(each.pk): expected_start(each).words for each in (first, second)}  # type: ignore[union-attr]
    stranger = make_place().owner
    assert sentences(browser_of(stranger), first, second) == {}
    for page in ("/", "/queue/"):
        shown = browser_of(place.owner).get(page).content.decode()
        assert f'id="start-{first.pk}"' in shown
        assert (
            f"/queue/starts/?session={first.pk}" in shown
            or f"session={second.pk}&amp;session={first.pk}" in shown
        )
    assert f"start-{first.pk}" not in browser_of(stranger).get("/queue/").content.decode()


def test_no_forecast_for_sessions_at_a_limit_and_unknown_ids(place: Place, browser_of: Any) -> None:
    running = place.run(timeout_s=600)
    limit(place.owner, max_slots={"cpu": 1000})
    waiting = place.place()
    browser = browser_of(place.owner)
    assert sentences(browser, running, waiting) == {str(waiting.pk): ""}
    nonsense = browser.get("/queue/starts/", query_params={"session": ["x", "", "9" * 40]})
    assert (nonsense.status_code, nonsense.content.strip()) == (200, b"")


def test_many_starts_take_as_many_queries_as_one(place: Place, browser_of: Any) -> None:
    place.run(resources=ALL, timeout_s=600)
    waiting, counts = [], []
    browser = browser_of(place.owner)
    for more in (1, 4):
        waiting += [place.place(resources=ALL, timeout_s=600) for _ in range(more)]
        for _ in range(2):
            with CaptureQueriesContext(connection) as queries:
                assert len(sentences(browser, *waiting)) == len(waiting)
            counts.append(len(queries))
    assert counts[0] == counts[2] <= 15
    assert counts[1] == counts[3] < counts[0]


def test_past_estimate_is_not_shown_again(place: Place) -> None:
    """Others turn over, so that the machine is never empty: each time it would have been, had nobody come."""
    ran(place, *[2] * 5)
    other = place.run(resources={"cpu": 4, "mem": "1g"})
    session = place.enqueue(resources=ALL)
    begin, latest = clock.now(), []
    for minute in (0, 5, 8):
        with clock.frozen_at(begin + timedelta(minutes=minute)):
            ComputeSession.objects.filter(pk=other.pk).update(started_at=clock.now())
            found = expected_start(session)
            assert found is not None
            latest.append(found.latest_s)
    assert latest[0] == 120
    assert latest[1] == pytest.approx(300, abs=2)  # as long as it has waited
    assert latest[2] == pytest.approx(240, abs=2)  # in two minutes room is gathered, for two minutes


def test_page_says_that_start_is_unknown_beside_endless_sessions(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    ran(place, *[2] * 5)
    forgotten = place.run(name="forgotten", resources={"cpu": 1, "mem": "1g"})
    session = place.enqueue(resources=ALL)
    with clock.frozen_at(clock.now() + timedelta(minutes=11)):
        run_tick(place.group.pk)
        body = told(place, session)
        page = browser_of(place.owner).get(f"/sessions/{session.pk}/").content.decode()
    assert body["expected_start"] is None
    assert f"room is gathered for it on {place.agent.name}" in body["unknown_because"]
    assert body["unknown_because"] in page
    assert forgotten.name not in body["unknown_because"]


def test_long_queue_hides_missing_time_limits(place: Place) -> None:
    place.run(resources=ALL, timeout_s=600)
    for _ in range(MAX_AHEAD):
        place.enqueue(resources=ALL, timeout_s=600)
    foreseen, behind = (place.enqueue(resources=ALL, timeout_s=600) for _ in range(2))
    assert told(place, foreseen)["unknown_because"] == ""
    assert told(place, behind)["expected_start"] is None
    assert told(place, behind)["unknown_because"] == (
        "When it starts is not known: more than 30 sessions wait ahead of it, too many to foresee."
    )


def test_strict_placement_rule_hides_missing_time_limits(place: Place) -> None:
    place.run(resources=ALL, timeout_s=600)
    place.enqueue(resources=ALL, timeout_s=600)
    session = place.enqueue(
        resources=ALL, timeout_s=600, placement_group="pair", placement_rule="strict_spread"
    )
    body = told(place, session)
    assert (body["expected_start"], body["unknown_because"]) == (None, "")


def test_latest_start_is_that_of_the_reserved_agent(place: Place) -> None:
    """What becomes free on the other one may go to whoever comes."""
    ran(place, *[2] * 5)
    other = make_place()
    forgotten = place.run(resources={"cpu": 1, "mem": "1g"}, timeout_s=4 * 86400)
    Agent.objects.filter(pk=other.agent.pk).update(resource_group=place.group)
    turning = place.place(resources=ALL, timeout_s=9 * 86400)
    for status in (Status.PREPARING, Status.STARTING, Status.RUNNING):
        transitions.transition(turning.pk, to=status, reason=Reason.PLACED, actor=SYSTEM)
    assert turning.kernels.get().agent_id == other.agent.pk
    hour_ago = clock.now() - timedelta(hours=1)
    ComputeSession.objects.filter(pk=forgotten.pk).update(started_at=hour_ago)

    found = expected_start(place.enqueue(resources=ALL))
    assert found is not None
    assert found.earliest_s <= 120
    assert found.latest_s is not None
    assert found.latest_s > 3 * 86400
