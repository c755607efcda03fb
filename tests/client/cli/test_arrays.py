"""Arrays by command and library, against the production web process."""

import json

import pytest

from berth import Client
from sessions_app.models import SessionArray
from tests.client.conftest import Command
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]


def test_one_is_asked_for_looked_at_and_stopped(berth: Command, place: Place) -> None:
    asked = ("run", place.image.reference, "--name", "sweep", "--array", "1-4%2")
    started = berth(*asked, "--", "echo $BERTH_ARRAY_INDEX")
    assert started.code == 0, started.err
    array = SessionArray.objects.get()
    assert started.out.strip() == str(array.pk)
    assert array.elements.filter(held_for="array_limit").count() == 2

    [row] = [line.split("\t") for line in berth("array", "ls").out.splitlines()[1:]]
    assert row[:4] == [str(array.pk), "sweep", "1-4%2", "4 pending (2 on hold)"]
    shown = berth("array", "show", "sweep")
    assert "4: 4 pending (2 on hold)" in shown.out
    told = json.loads(berth("array", "show", str(array.pk)[:8], "--json").out)
    assert (told["count"], told["most_at_once"], told["held"]) == (4, 2, 2)
    assert f"{array.pk} [3]" in berth("show", "sweep-3").out

    stopped = berth("array", "stop", "sweep")
    assert (stopped.code, "4 cancelled" in stopped.err) == (0, True)
    assert json.loads(berth("array", "ls", "--json").out)[0]["statuses"] == {"CANCELLED": 4}


def test_json_tells_the_array_that_was_asked_for(berth: Command, place: Place) -> None:
    started = berth("run", place.image.reference, "--array", "1-2", "--json", "--", "true")
    assert json.loads(started.out)["statuses"] == {"PENDING": 2}


def test_what_is_no_array_or_not_there_is_told(berth: Command, place: Place) -> None:
    refused = berth("run", place.image.reference, "--array", "1-10000000", "--", "true")
    assert (refused.code, "has more than 1000 elements" in refused.err) == (2, True)
    absent = berth("array", "show", "absent")
    assert (absent.code, "There is no array “absent”" in absent.err) == (3, True)


def test_the_library_gives_the_elements(berth: Command, place: Place, portal_url: str) -> None:
    with Client() as client:
        first = client.sessions.start(
            place.image.reference, project=place.project.name, name="sweep", command="true", array="5-7"
        )
        assert (first.name, first.array_index) == ("sweep-5", 5)
        array = client.arrays.find("sweep")
        assert array.id == first.array
        assert [one.array_index for one in client.arrays.elements(array.id)] == [7, 6, 5]
