"""Programs killed for lack of memory are reported, and their session continues."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from rest_framework.test import APIClient

from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, Kernel
from sessions_app.presentation import session as presentation_session
from sessions_app.reconciler import loop
from sessions_app.termination.oom_kills import record_memory_kills
from tests import factories
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = {"cpu": 1, "mem": "512m"}


def kernel_of(session: ComputeSession) -> Kernel:
    kernel: Kernel = session.kernels.get()
    return kernel


def kill(place: Place, session: ComputeSession, *instants: datetime) -> None:
    for instant in instants:
        place.runtime.kill_for_memory(kernel_of(session).container_name, instant)


def shown(place: Place, session: ComputeSession) -> dict[str, object]:
    return presentation_session.row(factories.actor_for(place.owner), place.fresh(session))


def test_session_says_that_a_program_of_it_was_killed_and_goes_on(place: Place) -> None:
    session = place.run(resources=ASKED)
    assert shown(place, session)["memory_kill"] == ""
    kill(place, session, NOON)
    loop.reconcile_sessions()

    kernel = kernel_of(session)
    assert (kernel.memory_kills, kernel.memory_killed_at, kernel.memory_peak_bytes) == (1, NOON, 512 * 2**20)
    assert place.fresh(session).status == "RUNNING"
    said = str(shown(place, session)["memory_kill"])
    assert said.startswith("Program killed: it wanted more memory than the session's 512 MiB (peak 512 MiB).")


def test_kill_is_counted_once_however_often_the_engine_is_asked(place: Place) -> None:
    session = place.run(resources=ASKED)
    kill(place, session, NOON, NOON + timedelta(seconds=1))
    before = kernel_of(session)
    for _ in range(2):
        loop.reconcile_sessions()
    # Another round that read the row before.
    before.session = place.fresh(session)
    record_memory_kills({before.container_name: before}, place.runtime)
    assert kernel_of(session).memory_kills == 2

    kill(place, session, NOON + timedelta(seconds=2))
    loop.reconcile_sessions()
    assert kernel_of(session).memory_kills == 3
    assert "3 times so far" in str(shown(place, session)["memory_kill"])


def test_other_sessions_are_not_affected(place: Place) -> None:
    session, other = place.run(resources=ASKED), place.run(name="other")
    kill(place, session, NOON)
    loop.reconcile_sessions()
    assert kernel_of(other).memory_kills == 0


def end(place: Place, command: str, exit_code: int) -> ComputeSession:
    session = place.run(resources=ASKED, **({"type": "batch", "command": command} if command else {}))
    place.runtime.finish(kernel_of(session).container_name, exit_code=exit_code, was_oom_killed=True)
    loop.reconcile_sessions()
    end_session(session.pk)
    return place.fresh(session)


def test_command_that_ended_for_want_of_memory_says_limit_and_peak(place: Place) -> None:
    session = end(place, "make all", 137)
    assert (session.status, session.status_reason, session.exit_code) == ("ERROR", "out_of_memory", 137)
    assert "the session's 512 MiB (peak 512 MiB)" in str(session.status_message)
    assert kernel_of(session).memory_kills == 1
    assert shown(place, session)["memory_kill"] == ""  # its end says it


def test_command_that_went_well_all_the_same_ended_well_and_says_what_happened(place: Place) -> None:
    session = end(place, "make -k all", 0)
    assert (session.status, session.status_reason) == ("TERMINATED", "command_finished")
    assert shown(place, session)["memory_kill"]


def test_interactive_session_that_was_ended_later_did_not_end_for_memory(place: Place) -> None:
    assert end(place, "", 143).status_reason == "container_exited"


def test_page_of_the_session_says_it(place: Place) -> None:
    session = place.run(resources=ASKED)
    kill(place, session, NOON)
    loop.reconcile_sessions()

    browser = Client()
    browser.force_login(place.owner)
    page = browser.get(f"/sessions/{session.pk}/").content.decode()
    assert "Program killed: it wanted more memory than the session&#x27;s 512 MiB" in page


def test_programs_read_of_it_over_rest(place: Place) -> None:
    session = place.run(resources=ASKED)
    api = APIClient()
    api.force_authenticate(place.owner)
    assert api.get(f"/api/v1/sessions/{session.pk}/").json()["memory_kill"] is None
    kill(place, session, NOON)
    loop.reconcile_sessions()

    told = api.get(f"/api/v1/sessions/{session.pk}/").json()["memory_kill"]
    assert told["message"].startswith("Program killed")
    assert {name: told[name] for name in ("count", "killed_at", "peak_bytes", "limit_bytes")} == {
        "count": 1,
        "killed_at": "2026-11-21T12:00:00Z",
        "peak_bytes": 512 * 2**20,
        "limit_bytes": 512 * 2**20,
    }
