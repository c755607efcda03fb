"""What a person types wrong into the launcher is refused in the words that REST has."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils.html import escape

from sessions_app.models import ComputeSession
from tests.bad_input import UNMET, UNREADABLE
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db
ROWS = [(bad, typed) for bad in (*UNREADABLE, *UNMET) if (typed := bad.typed) is not None]


def test_the_launcher_refuses_every_wrong_value_with_the_same_sentence(browser_of, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
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
    assert len(ROWS) > 80
    for bad, typed in ROWS:
        answer = browser.post("/sessions/new/", {**right, **typed})
        assert answer.status_code == 422, bad
        assert escape(bad.says) in answer.content.decode(), bad
        assert not ComputeSession.objects.exists()
