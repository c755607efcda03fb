"""NUL characters, which PostgreSQL cannot store, are refused with a message everywhere."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from tests.addresses import all_addresses, page_addresses
from tests.conftest import People
from tests.factories import api_client

pytestmark = pytest.mark.django_db
NUL = "NUL character (U+0000)"


def test_addresses_and_query_strings(people: People, browser_of: Callable[[User], Client]) -> None:
    browser = Client()
    for address in all_addresses():
        answer = browser.get(f"{address}?q=1&filter=a%00")
        assert answer.status_code == 400, address
        assert NUL in answer.content.decode(), address
        assert browser.get(f"{address}%00/").status_code == 400, address
    browser = browser_of(people.superadmin)
    assert browser.get("/search/?q=%00").status_code == 400
    assert browser.get("/search/?q=a%2500b").status_code == 200  # the three characters %00


def test_forms(db: None) -> None:
    browser = Client()
    for address in page_addresses():
        for kind in ({"name": "a\0"}, {"a\0": "name"}):
            answer = browser.post(address, kind)
            assert answer.status_code == 400, address
            assert NUL in answer.content.decode(), address


@pytest.mark.parametrize(
    ("text", "says"), [("a\0", "NUL"), ("\ud800", "half of a surrogate pair")], ids=["nul", "half"]
)
def test_bodies_of_requests(people: People, text: str, says: str) -> None:
    api = api_client(people.member)
    bodies = ({"name": text}, {"mounts": [{"folder": text}]}, {text: 1}, {"environment": {text: "x"}})
    for body, field in zip(bodies, ("name", "mounts.0.folder", None, None), strict=True):
        answer = api.generic("POST", "/api/v1/sessions/", json.dumps(body), content_type="application/json")
        assert answer.status_code == 400
        ((where, sentences),) = answer.json()["fields"].items()
        assert says in sentences[0]
        assert field in (None, where)
