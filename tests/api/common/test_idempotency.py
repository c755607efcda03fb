"""A request repeated with its `Idempotency-Key` creates one object."""

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction
from rest_framework.test import APIClient

from accounts.models import KeyPair
from common import clock
from common.models import KeptAnswer
from common.rest import idempotency
from common.rest.idempotency import purge_answers
from sessions_app.api import views
from sessions_app.models import ComputeSession
from tests.factories import api_client, make_token, make_user
from tests.factories_folders import make_storage_host
from tests.factories_sessions import Place
from vfolders.models import VFolder

SESSIONS = "/api/v1/sessions/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def api(place: Place) -> APIClient:
    return api_client(place.owner)


def send(api: APIClient, body: dict[str, Any], key: str, path: str = SESSIONS) -> Any:
    return api.post(path, body, headers={"Idempotency-Key": key})


def test_the_same_request_again_gets_the_same_answer_and_makes_nothing(place: Place, api: APIClient) -> None:
    body = place.request(name="train")
    first = send(api, body, "a")
    place.end(ComputeSession.objects.get())
    again = send(api, dict(reversed(body.items())), "a")

    assert first.status_code == again.status_code == 201
    assert again.json() == first.json()
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Replayed"] == "true"
    assert ComputeSession.objects.count() == 1


def test_without_a_key_every_request_makes_one(place: Place, api: APIClient) -> None:
    body = place.request()
    body.pop("name")
    for name in ("a", "b"):
        assert api.post(SESSIONS, {**body, "name": name}).status_code == 201
    assert not KeptAnswer.objects.exists()


def test_another_request_with_the_same_key_is_refused(place: Place, api: APIClient, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    send(api, place.request(name="a"), "a")
    other_body = send(api, place.request(name="b"), "a")
    other_path = send(api, {"name": "data"}, "a", "/api/v1/folders/")

    for answer in (other_body, other_path):
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_used")
    assert ComputeSession.objects.count() == 1
    assert not VFolder.objects.exists()


def test_a_key_belongs_to_a_person_and_to_all_of_their_tokens(place: Place, api: APIClient) -> None:
    other = api_client(make_user(member_of=place.project))
    body = place.request(name="train")
    mine, theirs = send(api, body, "a"), send(other, body, "a")
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(place.owner, 'another')}")

    assert mine.json()["id"] != theirs.json()["id"]
    assert send(api, body, "a").json() == mine.json()


def test_a_refusal_leaves_the_key_free(place: Place, api: APIClient) -> None:
    wrong = send(api, place.request(name="a b"), "a")
    too_much = send(api, place.request(name="a", resources={"cpu": 9, "mem": "1g"}), "a")
    right = send(api, place.request(name="a"), "a")

    assert [answer.status_code for answer in (wrong, too_much, right)] == [400, 422, 201]


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "a\tb"])
def test_a_key_that_is_none_is_refused(place: Place, api: APIClient, key: str) -> None:
    answer = send(api, place.request(), key)

    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["message"]
    assert not ComputeSession.objects.exists()


def test_folders_are_made_once(api: APIClient, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    first, again = (send(api, {"name": "data"}, "a", "/api/v1/folders/") for _ in range(2))

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()


def test_a_token_is_made_once_and_its_secret_kept_nowhere(place: Place, api: APIClient) -> None:
    first, again = (send(api, {"name": "laptop"}, "a", "/api/v1/keypairs/") for _ in range(2))

    assert (first.status_code, again.status_code) == (201, 409)
    assert again.json()["code"] == "answer_not_kept"
    assert KeyPair.objects.filter(name="laptop").count() == 1
    secret = first.json()["token"].partition(".")[2]
    assert all(secret not in str(row) for row in KeptAnswer.objects.values())


def test_an_answer_is_kept_for_a_day(place: Place, api: APIClient) -> None:
    body = place.request(name="train")
    send(api, body, "a")
    KeptAnswer.objects.update(created_at=clock.now() - timedelta(hours=23))
    assert purge_answers() == 0
    assert send(api, body, "a").status_code == 201

    KeptAnswer.objects.update(created_at=clock.now() - timedelta(hours=25))
    assert send(api, body, "a").status_code == 409  # asked anew: the name is in use
    assert purge_answers() == 1
    assert not KeptAnswer.objects.exists()


def test_a_time_that_is_over_is_replaced(place: Place, api: APIClient) -> None:
    send(api, place.request(name="a"), "a")
    KeptAnswer.objects.update(created_at=clock.now() - timedelta(hours=25))
    second = send(api, place.request(name="b"), "a")

    assert second.json()["name"] == "b"
    assert send(api, {**place.request(), "name": "c"}, "a").status_code == 422
    assert KeptAnswer.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_crash_after_the_write_leaves_nothing_and_the_key_free(
    place: Place, api: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = place.request(name="train")
    api.raise_request_exception = False

    def crash(*_: object) -> None:
        assert ComputeSession.objects.count() == 1
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "_keep", crash)
        assert send(api, body, "a").status_code == 500
    assert not ComputeSession.objects.exists()
    assert send(api, body, "a").status_code == 201


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_time_wait_for_the_first(place: Place) -> None:
    body, token = place.request(name="train"), make_token(place.owner)
    answers = at_the_same_time(4, lambda: send(bearer(token), body, "a"))

    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({json.dumps(answer.json(), sort_keys=True) for answer in answers}) == 1
    assert ComputeSession.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_long_wait_for_a_key_asks_to_retry(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_S", 1)
    body, token = place.request(name="train"), make_token(place.owner)
    is_held, may_go = threading.Event(), threading.Event()

    def slow(*arguments: Any, **named: Any) -> ComputeSession:
        is_held.set()
        assert may_go.wait(timeout=40)
        return enqueue(*arguments, **named)

    enqueue = views.enqueue_session
    monkeypatch.setattr(views, "enqueue_session", slow)
    first: list[Any] = []
    thread = threading.Thread(target=in_thread, args=(lambda: first.append(send(bearer(token), body, "a")),))
    thread.start()
    try:
        assert is_held.wait(timeout=40)
        second = send(bearer(token), body, "a")
    finally:
        may_go.set()
        thread.join(timeout=40)

    assert (second.status_code, second.json()["code"]) == (409, "still_answering")
    assert first[0].status_code == 201
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def bearer(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def in_thread(job: Callable[[], object]) -> None:
    try:
        job()
    finally:
        connections.close_all()


def at_the_same_time(count: int, job: Callable[[], Any]) -> list[Any]:
    gate, results = threading.Barrier(count), []

    def run() -> None:
        gate.wait(timeout=40)
        results.append(job())

    threads = [threading.Thread(target=in_thread, args=(run,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=40)
    return results
