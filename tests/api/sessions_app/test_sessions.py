"""REST of sessions: create, list, look, stop."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from common import clock
from sessions_app.models import ComputeSession
from tests.factories import api_client, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db

SESSIONS = "/api/v1/sessions/"
ERROR_KEYS = {"code", "message", "hint", "fields"}
OUT_KEYS = {
    "id", "name", "type", "status", "status_reason", "status_message", "exit_code", "owner", "personal_files", "project", "domain",
    "resource_group", "image", "resources", "mounts", "command", "timeout_s", "priority", "start_at", "pending_timeout_s", "dependencies", "max_retries", "retry_count", "requeues", "callback_url", "designated_agent", "may_run_elsewhere", "device_model", "device_mem_bytes", "device_api_version", "device_share_mem_bytes", "device_share_cores", "linked_devices", "isolation", "placement_group", "placement_rule", "array", "array_index", "queue_position", "cluster_size", "cluster_mode", "containers", "agents", "apps", "memory_kill", "ending", "devices",
    "created_at", "status_changed_at", "setup", "started_at", "ended_at", "deadline_at", "stops_at",
}  # fmt: skip


@pytest.fixture
def api(place: Place) -> APIClient:
    return api_client(place.owner)


def address(session: ComputeSession, part: str = "") -> str:
    return f"{SESSIONS}{session.pk}/{part}"


def test_creating_answers_the_session_that_waits(place: Place, api: APIClient) -> None:
    answer = api.post(SESSIONS, place.request(name="train"))

    body = answer.json()
    assert answer.status_code == 201
    assert set(body) == OUT_KEYS
    assert body["name"] == "train"
    assert (body["status"], body["status_reason"]) == ("PENDING", "enqueued")
    assert body["status_message"] == "Waiting for a machine."
    assert body["exit_code"] is None
    assert body["apps"] == []
    assert body["owner"] == place.owner.email
    assert body["resources"] == {"cpu": 1000, "mem": 2**30, "shm": 2**26}
    assert api.get(f"{SESSIONS}{body['id']}/").json() == body


def test_a_batch_session_keeps_its_command_and_limit(place: Place, api: APIClient) -> None:
    body = place.request(type="batch", command="  echo hi\n\techo ho", timeout_s=60, environment={"A": ""})

    created = api.post(SESSIONS, body).json()

    assert (created["type"], created["timeout_s"]) == ("batch", 60)
    assert created["command"] == "echo hi\n\techo ho"
    assert ComputeSession.objects.get(pk=created["id"]).environment == {"A": ""}


def test_a_running_session_tells_the_addresses_of_its_apps_and_its_machine(
    place: Place, api: APIClient
) -> None:
    session = place.run()

    body = api.get(address(session)).json()

    assert [app["name"] for app in body["apps"]] == ["jupyter", "board"]
    assert body["apps"][0]["url"] == f"http://jupyter-{session.host_label}.apps.localhost:8080/"
    assert body["agents"] == [place.agent.name]


def test_two_live_sessions_cannot_share_a_name(place: Place, api: APIClient) -> None:
    first = place.enqueue(name="train")
    refused = api.post(SESSIONS, place.request(name="train"))
    api.delete(address(first))

    assert refused.status_code == 409
    assert "name" in refused.json()["fields"]
    assert api.post(SESSIONS, place.request(name="train")).status_code == 201


def test_a_method_that_is_not_there_is_refused(api: APIClient) -> None:
    answer = api.patch(SESSIONS, {})

    assert answer.status_code == 405
    assert set(answer.json()) == ERROR_KEYS


def test_lists_hold_own_sessions_newest_first_in_pages(place: Place, api: APIClient) -> None:
    mine = [place.enqueue().name for _ in range(3)]
    place.enqueue(by=make_user(member_of=place.project))

    page = api.get(SESSIONS, {"page_size": 2}).json()

    assert page["count"] == 3
    assert [row["name"] for row in page["results"]] == mine[:0:-1]
    assert [row["name"] for row in api.get(page["next"]).json()["results"]] == mine[:1]


def test_lists_are_filtered(place: Place, api: APIClient) -> None:
    live = place.enqueue(name="Train-1")
    ended = place.enqueue(name="other", type="batch", command="ls")
    api.delete(address(ended))

    def names(**query: object) -> list[str]:
        return [row["name"] for row in api.get(SESSIONS, query).json()["results"]]

    assert names(status="PENDING") == names(name="train") == names(type="interactive") == [live.name]
    assert names(status=["CANCELLED", "ERROR"]) == names(type="batch") == [ended.name]
    assert len(names(project=place.project.name)) == 2
    assert names(project="absent") == []


def test_a_list_takes_a_constant_number_of_queries(
    place: Place, api: APIClient, django_assert_num_queries: Any
) -> None:
    api.get(SESSIONS)  # notes the use of the token
    for expected_rows in (1, 4):
        while ComputeSession.objects.count() < expected_rows:
            place.run()
        # Token, count, sessions, kernels with their agents, mounts, others that they come after.
        with django_assert_num_queries(6):
            assert len(api.get(SESSIONS).json()["results"]) == expected_rows


def test_one_session_takes_as_many_queries_whatever_it_comes_after(place: Place, api: APIClient) -> None:
    api.get(SESSIONS)  # notes the use of the token
    after = [{"session": str(place.run().pk), "when": "any"} for _ in range(5)]
    few, many = (place.enqueue(dependencies=after[:count]) for count in (1, 5))

    def queries(session: ComputeSession, count: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(api.get(address(session)).json()["dependencies"]) == count
        return len(captured)

    assert queries(few, 1) == queries(many, 5)


def test_stopping_twice_is_harmless(place: Place, api: APIClient) -> None:
    session = place.run()

    first, second = api.delete(address(session)), api.delete(address(session))

    assert (first.status_code, first.json()["status"]) == (202, "TERMINATING")
    assert (second.status_code, second.json()["status"]) == (202, "TERMINATING")
    place.end(session)
    assert api.delete(address(session)).json()["status"] == "TERMINATED"
    assert session.transitions.filter(to_status="TERMINATING").count() == 1


def test_a_waiting_session_is_cancelled_at_once(place: Place, api: APIClient) -> None:
    assert api.delete(address(place.enqueue())).json()["status"] == "CANCELLED"


def test_history_tells_each_change_oldest_first(place: Place, api: APIClient) -> None:
    session = place.end(place.run())

    lines = api.get(address(session, "history/")).json()["results"]

    assert [line["to_status"] for line in lines] == [
        "PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING", "TERMINATED",
    ]  # fmt: skip
    assert [line["from_status"] for line in lines[1:]] == [line["to_status"] for line in lines[:-1]]
    assert set(lines[0]) == {"from_status", "to_status", "reason", "message", "actor", "happened_at"}
    assert (lines[0]["actor"], lines[1]["actor"]) == (place.owner.email, "system")
    assert lines[0]["happened_at"] <= clock.now().isoformat()


def test_refusal_names_allow_lists_and_limits_at_their_fields(place: Place) -> None:
    limit(place.project, max_sessions=0, allowed_images=[])
    limit(place.owner, allowed_images=["python"])
    body = api_client(place.owner).post("/api/v1/sessions/", place.request(), format="json")
    refusal = body.json()
    assert (body.status_code, refusal["code"]) == (422, "limit_exceeded")
    assert [(each["level"], each["entries"]) for each in refusal["allow_lists"]] == [
        ("project", []), ("user", ["python"]),
    ]  # fmt: skip
    assert [each["limit"] for each in refusal["limits"]] == ["sessions"]
    assert refusal["fields"]["image"] == [each["message"] for each in refusal["allow_lists"]]
    assert "may use no image. Superadmins change the policy" in refusal["message"]
