"""REST and page of agents."""

from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django.fixtures import DjangoAssertNumQueries

from accounts.models import User
from agents.core.states import AgentState
from agents.machines import service as machines_service
from agents.models import Agent
from agents.resource_groups import service as resource_groups_service
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common.actors import SYSTEM
from tests.conftest import People
from tests.factories import api_client

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    resource_groups_service.create_resource_group(actor=SYSTEM, name="default", is_default=True)
    return add_agent("here")


def add_agent(name: str) -> Agent:
    address = f"simulated://{name}"
    adopt_runtime(address, SimulatedRuntime(name=name, cpu_milli=4000, images=["berth/python:1"]))
    return machines_service.register_agent(actor=SYSTEM, name=name, address=address)


def test_agents_are_listed_with_capacity_and_occupied(agent: Agent, people: People) -> None:
    answer = api_client(people.member).get("/api/v1/agents/")

    assert answer.status_code == 200
    [row] = answer.json()["results"]
    assert row["name"] == "here"
    assert row["state"] == "connected"
    assert row["resource_group"] == "default"
    assert row["capacity"]["cpu"] == 4000
    assert row["occupied"] == {}
    assert row["images"] == ["berth/python:1"]
    assert "simulated://here" not in str(row)


def test_agents_are_filtered_by_state(agent: Agent, people: People) -> None:
    client = api_client(people.member)
    assert client.get("/api/v1/agents/?state=lost").json()["count"] == 0
    assert client.get("/api/v1/agents/?state=connected").json()["count"] == 1
    assert client.get("/api/v1/agents/?state=nonsense").status_code == 400


def test_resource_groups_are_listed_with_the_number_of_their_agents(agent: Agent, people: People) -> None:
    add_agent("retired")
    machines_service.change_agent_state(
        actor=SYSTEM, agent_id=Agent.objects.get(name="retired").pk, to=AgentState.RETIRED
    )
    [row] = api_client(people.member).get("/api/v1/resource-groups/").json()["results"]
    assert (row["name"], row["is_default"], row["agents"]) == ("default", True, 1)


@pytest.mark.parametrize("path", ["agents", "resource-groups"])
def test_nobody_sees_machines_without_signing_in(path: str) -> None:
    assert api_client().get(f"/api/v1/{path}/").status_code == 401


def test_number_of_queries_does_not_grow_with_agents(
    agent: Agent, people: People, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        add_agent(f"more-{number}")
    client = api_client(people.member)
    with django_assert_max_num_queries(8):
        assert client.get("/api/v1/agents/").json()["count"] == 6


def test_page_shows_machines_and_their_use(
    agent: Agent, people: People, browser_of: Callable[[User], Client]
) -> None:
    client = browser_of(people.member)
    page = client.get("/agents/").content.decode()
    assert "here" in page
    assert "0 of 4\N{NO-BREAK SPACE}cores" in page
    assert "simulated://here" not in page
    assert "<html" not in client.get("/agents/", headers={"HX-Request": "true"}).content.decode()


def test_page_without_machines_says_what_comes_next(
    people: People, browser_of: Callable[[User], Client]
) -> None:
    client = browser_of(people.superadmin)
    assert "Add machine" in client.get("/agents/").content.decode()


def test_a_maintenance_has_an_end_and_a_reason_and_a_wrong_state_names_the_others(
    agent: Agent, people: People, browser_of: Callable[[User], Client]
) -> None:
    client = api_client(people.superadmin)
    address = f"/api/v1/agents/{agent.pk}/state/"
    planned = {"state": "maintenance", "ends_at": "2999-01-01T18:00:00Z", "because": "disk change"}
    row = client.post(address, planned, format="json").json()
    assert (row["state"], row["maintenance_reason"]) == ("maintenance", "disk change")
    assert row["maintenance_ends_at"] == "2999-01-01T18:00:00Z"
    page = browser_of(people.superadmin).get(f"/agents/{agent.pk}/maintenance/").content.decode()
    assert 'data-instant="2999-01-01T18:00:00+00:00"' in page
    assert 'value="disk change"' in page
    refused = client.post(address, {"state": "asleep"}, format="json").json()
    said = "“asleep” is none of these: connected, draining, maintenance, retired."
    assert refused["fields"]["state"] == [said]


def test_page_of_a_machine_tells_its_events_and_what_to_change(
    agent: Agent, people: People, browser_of: Callable[[User], Client]
) -> None:
    data = {"has_live_restore": False, "cgroup_version": 1, "address_pools": [["10.213.0.0/16", 24]]}
    data |= {"disk": {"size_bytes": 100 * 2**30, "free_bytes": 2**30}, "storage_driver": "vfs"}
    Agent.objects.update(address="tcp://here:2376", data=data, engine_version="24.0.7")
    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.DRAINING)
    page = browser_of(people.superadmin).get(f"/agents/{agent.pk}/").content.decode()
    for words in (
        "State: Connected → Draining", "no session is left there", "CVE-2024-21626", "Live restore is off",
        "control groups v1", "10.213.0.0/16", "Only 1 GiB of 100 GiB are free", "storage driver vfs",
    ):  # fmt: skip
        assert words in page
    assert "State: Connected" not in browser_of(people.member).get(f"/agents/{agent.pk}/").content.decode()
    shown = browser_of(people.member).get("/agents/map/?state=draining").content.decode()
    assert 'aria-label="here: draining, 0 % held"' in shown
    assert (
        "No machine is in this state"
        in browser_of(people.member).get("/agents/map/?state=lost").content.decode()
    )
