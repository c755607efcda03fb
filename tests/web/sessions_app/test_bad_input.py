"""Wrong values in the launcher are refused with the messages of REST."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils.html import escape

from sessions_app.models import ComputeSession
from tests.bad_input import UNMET, UNREADABLE, some_of_each_field
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db
SAYABLE = [bad for bad in (*UNREADABLE, *UNMET) if bad.typed is not None]


def test_the_launcher_refuses_a_wrong_value_of_each_field_with_the_same_sentence(
    browser_of, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    place = make_place()
    browser: Client = browser_of(place.owner)
    right = {
        "type": "interactive",
        "name": "train",
        "project": place.project.name,
        "image": place.image.reference,
        "resource_group": place.group.name,
        "cpu": "1",
        "mem": "1g",
        "shm": "64m",
    }
    assert len(SAYABLE) > 80
    for bad in some_of_each_field(SAYABLE):
        answer = browser.post("/sessions/new/", {**right, **(bad.typed or {})})
        assert answer.status_code == 422, bad
        assert escape(bad.says) in answer.content.decode(), bad
        assert not ComputeSession.objects.exists()
