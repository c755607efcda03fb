"""Lists of agents, folders and images."""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.core.states import AgentState
from agents.models import Agent, AgentImage, AgentSlot, ResourceGroup
from images.models import ContainerImage, Registry
from tests.conftest import People
from tests.factories import make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_scheduler import Cluster, make_cluster
from vfolders.models import VFolder

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
BrowserOf = Callable[[User], Client]
GIB = 2**30


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


@pytest.fixture
def superadmin(browser_of: BrowserOf) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def text_of(browser: Client, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def names_in(page: str) -> list[str]:
    return re.findall(r'<a class="row-name" href="[^"]+">([^<]+)</a>', page)


def lines_of(browser: Client, address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(browser.get(address)).decode())))


def add_agent(cluster: Cluster, name: str, *, cpu: int = 4000, used: int = 0) -> Agent:
    agent = cluster.add_agent({"cpu": cpu, "mem": 8 * GIB})
    Agent.objects.filter(pk=agent.pk).update(name=name)
    AgentSlot.objects.filter(agent=agent, slot_name="cpu").update(occupied=used)
    return Agent.objects.get(pk=agent.pk)


# Agents


def test_agents_are_found_by_name_state_group_and_image(cluster: Cluster, superadmin: Client) -> None:
    first, second = add_agent(cluster, "gpu-1"), add_agent(cluster, "gpu-2")
    AgentImage.objects.create(agent=first, reference="berth/a:1", image_id="sha256:1")
    Agent.objects.filter(pk=second.pk).update(resource_group=ResourceGroup.objects.create(name="other"))
    superadmin.post(f"/agents/{second.pk}/state/", {"to": "draining"})

    for query, found in {
        "": ["gpu-1", "gpu-2"],
        "?q=-2": ["gpu-2"],
        "?state=draining": ["gpu-2"],
        "?group=other": ["gpu-2"],
        "?image=berth/a:1": ["gpu-1"],
        "?image=absent": [],
        "?tab=retired": [],
    }.items():
        assert names_in(text_of(superadmin, f"/agents/{query}")) == found, query
    assert "No agent matches" in text_of(superadmin, "/agents/?q=absent")
    assert "No agent is retired" in text_of(superadmin, "/agents/?tab=retired")


def test_agents_are_sorted_by_how_full_they_are(cluster: Cluster, superadmin: Client) -> None:
    add_agent(cluster, "half", cpu=4000, used=2000)
    add_agent(cluster, "empty", cpu=64000)
    add_agent(cluster, "full", cpu=1000, used=1000)
    AgentSlot.objects.filter(agent=add_agent(cluster, "nothing"), slot_name="cpu").update(capacity=0)

    assert names_in(text_of(superadmin, "/agents/?sort=-cpu")) == ["full", "half", "nothing", "empty"]
    assert names_in(text_of(superadmin, "/agents/?sort=cpu")) == ["empty", "nothing", "half", "full"]


def test_a_superadmin_drains_a_machine_and_takes_it_back(cluster: Cluster, superadmin: Client) -> None:
    agent = add_agent(cluster, "here")
    address = f"/agents/{agent.pk}/state/"

    drained = superadmin.post(address, {"to": "draining", "back": "/agents/?q=here"}, follow=True)

    assert drained.redirect_chain == [("/agents/?q=here", 302)]
    page = drained.content.decode()
    assert "takes no new sessions" in page
    assert "Undo" in page
    assert "Resume" in page
    superadmin.post(address, {"to": "connected"})
    assert Agent.objects.get(pk=agent.pk).state == AgentState.CONNECTED
    assert superadmin.post(address, {"to": "retired"}).status_code == 400
    assert superadmin.post("/agents/999999/state/", {"to": "draining"}).status_code == 404


def test_a_move_that_is_not_possible_any_more_is_said(cluster: Cluster, superadmin: Client) -> None:
    agent = add_agent(cluster, "here")
    Agent.objects.filter(pk=agent.pk).update(state=AgentState.RETIRED.value)

    answer = superadmin.post(f"/agents/{agent.pk}/state/", {"to": "draining"}, follow=True)

    assert "is-bad" in answer.content.decode()
    assert Agent.objects.get(pk=agent.pk).state == AgentState.RETIRED


def test_others_see_machines_without_addresses_buttons_and_retired_ones(
    cluster: Cluster, browser_of: BrowserOf
) -> None:
    agent = add_agent(cluster, "here")
    browser = browser_of(cluster.owner)

    page = text_of(browser, "/agents/?tab=retired")

    assert names_in(page) == ["here"]
    assert agent.address not in page
    assert "Drain" not in page.replace("Draining", "")
    assert browser.get(f"/agents/{agent.pk}/drain/").status_code == 403
    assert browser.post(f"/agents/{agent.pk}/state/", {"to": "draining"}).status_code == 403


def test_agents_are_exported(cluster: Cluster, superadmin: Client) -> None:
    add_agent(cluster, "b", used=1000)
    add_agent(cluster, "a")

    lines = lines_of(superadmin, "/agents/export/?sort=-cpu")

    assert [(line["name"], line["cores occupied"]) for line in lines] == [("b", "1.0"), ("a", "0.0")]


# Folders


@pytest.fixture
def folders(people: People, tmp_path: Path) -> list[VFolder]:
    make_storage_host(tmp_path)
    shared = make_folder(people.project_admin, name="shared", project=people.project)
    return [make_folder(people.member, name="a"), make_folder(people.member, name="b"), shared]


def folders_in(page: str) -> list[str]:
    return [
        name.strip()
        for name in re.findall(r'class="row-name" href="/data/[^>]*>.*?</svg>([^<]+)<', page, re.S)
    ]


def test_folders_are_found_and_sorted(people: People, folders: list[VFolder], browser_of: BrowserOf) -> None:
    browser, admin = browser_of(people.member), browser_of(people.domain_admin)

    assert folders_in(text_of(browser, "/data/?sort=-name")) == ["shared", "b", "a"]
    assert folders_in(text_of(browser, f"/data/?project={people.project.name}")) == ["shared"]
    assert folders_in(text_of(browser, "/data/?q=a")) == ["a", "shared"]
    assert "No folder matches" in text_of(browser, "/data/?q=absent")
    assert folders_in(text_of(admin, "/data/")) == []
    assert folders_in(text_of(admin, f"/data/?tab=all&owner={people.member.email}")) == ["a", "b"]
    lines = lines_of(admin, "/data/export/?tab=all")
    assert [(line["name"], line["owner"], line["project"]) for line in lines] == [
        ("a", people.member.email, ""),
        ("b", people.member.email, ""),
        ("shared", "", people.project.name),
    ]


def test_what_is_refused_to_one_of_many_folders_is_said_at_it(
    people: People, folders: list[VFolder], browser_of: BrowserOf
) -> None:
    browser = browser_of(people.member)
    ids = [str(folder.pk) for folder in folders] + [str(uuid4())]
    page = text_of(browser, "/data/")
    assert f'form="folders-form" name="folder" value="{ids[0]}"' in page
    assert ids[2] not in re.findall(r'name="folder" value="([^"]+)"', page)  # a member may not delete it

    trashed = browser.post("/data/trash/", {"folder": ids, "back": "q=x"}).content.decode()
    wrong = browser.post("/data/purge/", {"folder": ids, "confirm": "delete"})
    assert "2 of 4 in the trash" in trashed
    assert "You may not delete the folder “shared”" in trashed
    assert 'href="/data/?q=x"' in trashed
    assert "nothing was deleted" in wrong.content.decode()
    assert VFolder.objects.filter(state="trashed").count() == 2

    done = browser.post("/data/purge/", {"folder": ids, "confirm": "delete 4"}).content.decode()

    assert "2 of 4 removed for ever" in done
    assert [folder.name for folder in VFolder.objects.exclude(state="deleting")] == ["shared"]
    assert "Choose the folders first" in browser.post("/data/purge/", follow=True).content.decode()


# Images


def test_people_see_what_they_can_start(cluster: Cluster, browser_of: BrowserOf) -> None:
    ContainerImage.objects.create(reference="berth/off:1", title="Off", is_enabled=False)
    cluster.image.title = "Python"
    cluster.image.save()

    page = text_of(browser_of(cluster.owner), "/images/")

    assert "Python" in page
    assert f"/sessions/new/?image={cluster.image.reference.replace(':', '%3A')}" in page
    assert "Off" not in page
    assert "Machines" not in page
    assert "No image matches" in text_of(browser_of(cluster.owner), "/images/?q=absent")


def test_administrators_see_registries_and_how_many_machines_have_an_image(
    cluster: Cluster, superadmin: Client
) -> None:
    registry = Registry.objects.create(name="hub", host="hub.test", url="https://hub.test")
    ContainerImage.objects.create(reference="hub.test/a:1", registry=registry)
    for name in ("a", "b"):
        AgentImage.objects.create(
            agent=add_agent(cluster, name), reference="hub.test/a:1", image_id="sha256:1"
        )

    page = text_of(superadmin, "/images/?registry=hub")

    assert re.search(r'href="/images/\d+/"[^>]*>2 of \d<', page)
    assert cluster.image.reference not in page
    assert cluster.image.reference in text_of(superadmin, "/images/")


def test_without_images_the_page_says_who_adds_them(people: People, browser_of: BrowserOf) -> None:
    assert "No image yet" in text_of(browser_of(people.member), "/images/")


# All of them


@pytest.mark.parametrize("address", ["/agents/", "/images/", "/data/"])
@pytest.mark.parametrize(
    "query", ["tab=x&page=x&q=%01", "sort=-x&page=-1", "q=<script>alert(1)</script>&page=99"]
)
def test_any_query_string_gets_a_list(
    people: People, browser_of: BrowserOf, address: str, query: str
) -> None:
    assert "<script>alert" not in text_of(browser_of(people.superadmin), f"{address}?{query}")
