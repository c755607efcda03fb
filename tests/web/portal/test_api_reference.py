"""The API reference shows what the OpenAPI document says."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from tests.conftest import People

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(people: People, browser_of: Callable[[User], Client]) -> str:
    answer = browser_of(people.member).get("/api/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_each_operation_is_listed_with_its_sentence_and_answers(page: str) -> None:
    assert ">POST</span><code>/api/v1/sessions/</code>" in page
    assert "Create a session." in page
    assert "(<code>is_active</code> false)" in page
    assert ">GET</span><code>/api/v1/sessions/{session_id}/logs/</code>" in page
    assert "201, 400, 401, 403, 404, 406, 409, 413, 415, 422, 429, 503" in page


def test_bodies_and_parameters_are_explained(page: str) -> None:
    assert "Id or name of a folder" not in page  # inside of a list; the document has it
    assert "Reference of an image, like berth/python:1." in page
    assert "1: continue until the container ends." in page


def test_it_says_how_to_call_and_leads_to_the_document(page: str) -> None:
    assert "Authorization: Bearer TOKEN" in page
    assert 'href="/api/schema/?format=json"' in page


def test_ids_are_there_once(page: str) -> None:
    ids = [part.partition('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
