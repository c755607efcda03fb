"""The launcher works without scripts, keeps what was typed, and marks errors."""

import html
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from agents.models import Agent, AgentSlot, ResourceGroup
from common import clock
from common.actors import SYSTEM
from images.models import ContainerImage
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession
from sessions_app.session_templates.presets import create_preset
from tests.factories import make_user
from tests.factories_devices import give_devices
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]
LAUNCHER = "/sessions/new/"
SUMMARY = "/sessions/new/summary/"


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def typed(place: Place, **changes: Any) -> dict[str, Any]:
    """What the form sends if nothing but a name was chosen."""
    return {
        "type": "interactive",
        "name": "train",
        "project": place.project.name,
        "image": place.image.reference,
        "resource_group": place.group.name,
        "cpu": "1",
        "mem": "2g",
        "shm": "64m",
        "command": "",
        "timeout_s": "",
        "environment": "",
        **changes,
    }


def control(page: str, name: str) -> str:
    """The tag of the control called `name`, with what is inside of it."""
    found = re.search(rf'<(input|select|textarea)[^>]*name="{name}".*?(?=<div|</div)', page, re.DOTALL)
    assert found is not None
    return found[0]


def test_a_start_time_is_read_in_the_zone_of_the_reader_and_the_time_to_wait_as_typed(
    place: Place, browser: Client
) -> None:
    tomorrow = (clock.now() + timedelta(days=1)).replace(second=0, microsecond=0)
    asked = {"start_at": f"{tomorrow + timedelta(hours=9):%Y-%m-%dT%H:%M}", "time_zone": "Asia/Seoul"}
    answer = browser.post(LAUNCHER, typed(place, **asked, pending_timeout_s="90m"))
    session = ComputeSession.objects.get()
    assert (session.start_at, session.pending_timeout_s) == (tomorrow, 5400)
    page = browser.get(answer["Location"]).content.decode()
    assert f"Waits for its start time, {tomorrow:%Y-%m-%d %H:%M}\N{NO-BREAK SPACE}UTC." in page
    assert "1 h 30 min" in page

    for changes, field in (
        ({"start_at": "soon"}, "start_at"),
        ({"pending_timeout_s": "soon"}, "pending_timeout_s"),
    ):
        answer = browser.post(LAUNCHER, typed(place, name="other", **changes))
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])


def test_others_that_it_comes_after_are_typed_by_name(place: Place, browser: Client) -> None:
    place.run(name="prepare"), place.run(name="load")
    answer = browser.post(LAUNCHER, typed(place, after="prepare, load,", after_when="any"))
    page = browser.get(answer["Location"]).content.decode()
    assert "Waits until “prepare” has ended, and for 1\N{NO-BREAK SPACE}more." in page
    assert "once it has ended" in page
    assert '<option value="prepare"></option>' in browser.get(LAUNCHER).content.decode()

    refused = browser.post(LAUNCHER, typed(place, name="other", after="absent"))
    assert list(refused.context["form"].errors) == ["after"]
    assert (
        "There is no session or array “absent”"
        in browser.post(SUMMARY, typed(place, name="other", after="absent")).content.decode()
    )


def test_the_empty_form_suggests_a_name_and_a_size(place: Place, browser: Client) -> None:
    page = browser.get(LAUNCHER).content.decode()

    assert 'value="session-1"' in control(page, "name")
    assert 'value="2g"' in control(page, "mem")
    assert re.search(r'value="small"[^>]* checked', page)
    assert "You have no folder yet" in page


def test_a_size_that_no_machine_has_cannot_be_chosen(browser_of: BrowserOf) -> None:
    small = make_place(cpu_milli=2000)
    page = browser_of(small.owner).get(LAUNCHER).content.decode()

    assert re.findall(r'data-size-fields="{&quot;cpu&quot;: &quot;(\d)&quot;[^>]*disabled', page) == [
        "4",
        "8",
    ]
    assert page.count(f"No machine of “{small.group.name}” is that large") >= 2


def test_whose_machines_to_use_stands_beside_the_sizes_where_there_is_a_choice(
    place: Place, browser: Client
) -> None:
    def is_beside_sizes() -> bool:
        page = browser.get(LAUNCHER).content.decode()
        return (
            page.index('id="size-title"') < page.index('id="id_resource_group"') < page.index('name="size"')
        )

    assert not is_beside_sizes()
    ResourceGroup.objects.create(name="larger")
    assert is_beside_sizes()


def test_the_query_string_fills_the_form(place: Place, browser: Client, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    data, other = make_folder(place.owner, name="data"), make_folder(place.owner, name="other")
    query = {
        "type": "batch",
        "name": "nightly",
        "cpu": "3",
        "command": "make <all>",
        "folders": [data.pk, other.pk],
        "readonly": [data.pk, other.pk],
    }

    page = browser.get(LAUNCHER, query).content.decode()

    assert re.search(r'value="batch" (selected|checked)', page)
    assert 'value="nightly"' in control(page, "name")
    assert 'value="3"' in control(page, "cpu")
    assert "make &lt;all&gt;" in control(page, "command")
    for folder in (data, other):
        assert len(re.findall(rf'value="{folder.pk}"[^>]*checked', page)) == 2


@pytest.mark.parametrize(
    "query", ["type=x&image=&cpu=%01&folders=x&readonly=%01", "name=&project=x&environment=%FF"]
)
def test_any_query_string_gets_the_form(browser: Client, query: str) -> None:
    assert browser.get(f"{LAUNCHER}?{query}").status_code == 200


def test_launching_makes_the_session_and_goes_to_its_page(
    place: Place, browser: Client, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    data, other = make_folder(place.owner, name="data"), make_folder(place.owner, name="other")
    body = typed(
        place,
        cpu="0.5",
        mem="1.5g",
        folders=[data.pk, other.pk],
        readonly=[other.pk],
        environment="A=1\r\n\r\nB=x=y\r\n",
        command="left over from batch",
    )

    answer = browser.post(LAUNCHER, body)

    session = ComputeSession.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/sessions/{session.pk}/")
    assert session.requested_slots == {"cpu": 500, "mem": 3 * 2**29}
    assert session.environment == {"A": "1", "B": "x=y"}
    assert (session.command, session.timeout_s) == ("", None)
    assert [(mount.path, mount.is_readonly) for mount in session.mounts.all()] == [
        ("/home/work/data", False),
        ("/home/work/other", True),
    ]


def test_a_batch_command_is_kept_as_typed(place: Place, browser: Client) -> None:
    browser.post(
        LAUNCHER, typed(place, type="batch", command="for i in 1 2\r\ndo echo $i; done", timeout_s="60")
    )

    session = ComputeSession.objects.get()
    assert session.command == "for i in 1 2\ndo echo $i; done"
    assert session.timeout_s == 60


REFUSALS: tuple[tuple[dict[str, str], str, str], ...] = (
    ({"name": "a b"}, "name", "letters, digits"),
    ({"name": ""}, "name", "Use 1 to 64 letters"),
    ({"project": "x"}, "project", "There is no project “x” among yours"),
    ({"image": ""}, "image", "Say which image"),
    ({"cpu": "0"}, "cpu", "at least"),
    ({"cpu": "lots"}, "cpu", "not an amount of cpu"),
    ({"cpu": "9"}, "cpu", "The largest that fits is 8 cores"),
    ({"mem": "lots"}, "mem", "not an amount of memory"),
    ({"mem": "1m"}, "mem", "at least"),
    ({"shm": "9g"}, "shm", "cannot be more"),
    ({"type": "batch"}, "command", "needs a command"),
    ({"type": "batch", "command": "ls", "timeout_s": "0"}, "timeout_s", "whole seconds"),
    ({"type": "batch", "command": "ls", "timeout_s": "99999999"}, "timeout_s", "whole seconds"),
    ({"environment": "A=1\nB"}, "environment", "“B” has no “=”"),
    ({"environment": "LD_PRELOAD=x"}, "environment", "set by Berth"),
)


def test_a_refusal_marks_its_field_and_keeps_what_was_typed(
    place: Place, browser: Client, subtests: pytest.Subtests
) -> None:
    for changes, field, words in REFUSALS:
        with subtests.test(str((changes, field))):
            answer = browser.post(LAUNCHER, typed(place, **{"name": "kept", **changes}))

            page = answer.content.decode()
            assert answer.status_code == 422
            assert "is-invalid" in control(page, field)
            assert words in page.replace("&quot;", '"')
            assert f'value="{changes.get("name", "kept")}"' in control(page, "name") or not changes.get(
                "name", "x"
            )
            assert not ComputeSession.objects.exists()


def test_a_used_name_is_marked(place: Place, browser: Client) -> None:
    place.enqueue(name="train")

    answer = browser.post(LAUNCHER, typed(place))

    assert answer.status_code == 422
    assert "Used by a live session of yours." in answer.content.decode()


def test_a_refusal_without_a_field_stands_on_top(place: Place, browser: Client) -> None:
    place.agent.slots.all().delete()

    answer = browser.post(LAUNCHER, typed(place))

    assert answer.status_code == 422
    assert "has no machine" in answer.content.decode()


def test_a_person_without_a_project_gets_the_form_all_the_same(place: Place, browser_of: BrowserOf) -> None:
    outsider = browser_of(make_user(domain=place.project.domain))

    assert outsider.get(LAUNCHER).status_code == 200
    assert outsider.post(LAUNCHER, typed(place)).status_code == 422


def test_without_any_resource_group_the_form_is_shown(place: Place, browser: Client) -> None:
    ResourceGroup.objects.update(is_public=False)

    assert browser.get(LAUNCHER).status_code == 200
    assert browser.post(LAUNCHER, typed(place, resource_group="")).status_code == 422


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Starts now on machine-"),
        ({"cpu": "9"}, "has 9 cores"),
        ({"size": "small", "cpu": "9"}, "Starts now on machine-"),
        ({"size": "medium"}, "2\N{NO-BREAK SPACE}cores, 4\N{NO-BREAK SPACE}GiB"),
        ({"cpu": ""}, "is not an amount of cpu"),
        ({"cpu": "nan", "mem": "\x01"}, "is not an amount"),
        ({"cpu": "1e999999"}, "is not an amount"),
        ({"name": ""}, 'href="#id_name"'),
        ({"environment": "A"}, 'href="#id_environment"'),
        ({"name": "", "project": "", "cpu": "x"}, "And 2 more."),
    ],
)
def test_the_summary_says_what_would_come_of_it(
    place: Place, browser: Client, changes: dict[str, str], words: str
) -> None:
    answer = browser.post(SUMMARY, typed(place, **changes))

    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert not ComputeSession.objects.exists()


def test_the_summary_tells_of_a_queue_and_of_missing_machines(place: Place, browser: Client) -> None:
    place.run(resources={"cpu": 7, "mem": "1g"})
    page = browser.post(SUMMARY, typed(place, cpu="2")).content.decode()
    assert "It would wait. Waits for 2\N{NO-BREAK SPACE}cores" in page
    assert "number 1\N{NO-BREAK SPACE}in the queue" in page
    assert "Take 1 core, 2 GiB, which are free" in page
    assert "number 2 of your 200 live sessions" in page

    place.agent.slots.all().delete()
    assert "has no machine" in browser.post(SUMMARY, typed(place)).content.decode()


def test_values_of_variables_are_not_repeated(place: Place, browser: Client) -> None:
    page = browser.post(SUMMARY, typed(place, environment="TOKEN=geheim")).content.decode()

    assert "--env TOKEN" in page
    assert "geheim" not in page


def test_without_scripts_a_button_checks_first(place: Place, browser: Client) -> None:
    page = browser.post(LAUNCHER, typed(place, check="1", environment="A=1"))

    assert page.status_code == 200
    assert "Starts now on machine-" in page.content.decode()
    assert "A=1" in control(page.content.decode(), "environment")
    assert "berth start" in page.content.decode()
    assert not ComputeSession.objects.exists()


def test_a_chosen_size_counts_and_is_marked_where_it_is_refused(browser_of: BrowserOf) -> None:
    small = make_place(cpu_milli=2000)
    browser = browser_of(small.owner)

    page = browser.post(LAUNCHER, typed(small, size="large", cpu="1")).content.decode()
    browser.post(LAUNCHER, typed(small, size="medium", cpu="1"))

    assert "The largest that fits is 2 cores" in page
    assert "is-invalid" not in control(page, "cpu")
    assert ComputeSession.objects.get().requested_slots == {"cpu": 2000, "mem": 4 * GIB}


def test_a_size_below_what_the_image_needs_cannot_be_chosen(place: Place, browser: Client) -> None:
    ContainerImage.objects.update(min_slots={"cpu": 1000, "mem": 3 * GIB})

    page = browser.get(LAUNCHER).content.decode()

    assert "Too small for this environment" in page
    assert re.search(r'value="medium"[^>]* checked', page)
    assert "3 GiB needed by the environment" in page


def test_accelerators_are_cards_of_all_groups_with_what_is_free(place: Place, browser: Client) -> None:
    give_devices(place.agent, 2, "Big One")
    Agent.objects.update(device_model="Big One")
    other = make_place()
    AgentSlot.objects.create(agent=other.agent, slot_name="cuda", capacity=4000)

    page = browser.get(LAUNCHER).content.decode()
    cards = re.findall(r'name="device" value="([^"]*)" data-group="([^"]*)" data-most="(\d+)"', page)
    assert cards == [("gpu:Big One", place.group.name, "2"), ("cuda", other.group.name, "4")]
    assert "2 of 2 free" in page
    assert "4 of 4 free" in page

    browser.post(LAUNCHER, typed(place, device="gpu:Big One", device_count="1"))
    session = ComputeSession.objects.get()
    assert (session.requested_slots["gpu"], session.device_model) == (1000, "Big One")
    run_tick(place.group.pk)
    assert "1 of 2 free" in html.unescape(browser.post(SUMMARY, typed(place)).content.decode())


def test_a_wrong_number_of_accelerators_is_marked_and_an_address_names_a_card(
    place: Place, browser: Client
) -> None:
    AgentSlot.objects.create(agent=place.agent, slot_name="cuda", capacity=2000)
    refused = browser.post(LAUNCHER, typed(place, device="cuda", device_count="lots")).content.decode()
    assert "is-invalid" in control(refused, "device_count")
    page = browser.get(LAUNCHER, {"device_cuda": "2"}).content.decode()
    assert re.search(r'name="device" value="cuda"[^>]* checked', page)
    assert 'value="2"' in control(page, "device_count")
    browser.post(LAUNCHER, typed(place, name="none", device="", device_count="0"))
    assert "cuda" not in ComputeSession.objects.get().requested_slots


def test_without_accelerators_nothing_is_said_of_them(place: Place, browser: Client) -> None:
    assert 'name="device"' not in browser.get(LAUNCHER).content.decode()


def test_a_device_of_a_preset_is_taken_away_by_hand(place: Place, browser: Client) -> None:
    AgentSlot.objects.create(agent=place.agent, slot_name="cuda", capacity=2000)
    sized = {"cpu": 1, "mem": "1g", "cuda": 1}
    preset = create_preset(actor=SYSTEM, name="gpu", sharing="everybody", resources=sized)
    for name, text in (("without", "0"), ("untouched", ""), ("more", "2")):
        answer = browser.post(LAUNCHER, typed(place, name=name, size=f"preset-{preset.pk}", device_cuda=text))
        assert answer.status_code == 302
    asked = {each.name: each.requested_slots.get("cuda") for each in ComputeSession.objects.all()}
    assert asked == {"without": None, "untouched": 1000, "more": 2000}


def test_many_images_are_a_list(place: Place, browser: Client) -> None:
    for number in range(7):
        ContainerImage.objects.create(reference=f"berth/more:{number}", architecture="x86_64")

    assert re.search(r'<select[^>]*name="image"', browser.get(LAUNCHER).content.decode())


def test_the_form_and_its_summary_take_a_constant_number_of_queries(
    place: Place, browser: Client, tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    make_storage_host(tmp_path)
    folders = [make_folder(place.owner).pk for _ in range(3)]
    # Login, user, domain admin?, suggested name, projects, images, groups, room, presets, folders; what the frame shows.
    with django_assert_max_num_queries(15):
        browser.get(LAUNCHER)
    with django_assert_max_num_queries(31):
        browser.post(SUMMARY, typed(place, folders=folders))


def test_the_launcher_asks_for_an_array_apart_from_each_other(place: Place, browser: Client) -> None:
    asked = typed(place, type="batch", command="true", array="1-3", placement_rule="strict_spread")
    browser.post(LAUNCHER, asked)
    elements = ComputeSession.objects.filter(name__startswith="train-")
    assert set(elements.values_list("placement_group", "placement_rule")) == {("", "strict_spread")}


def test_a_rule_without_others_is_marked(place: Place, browser: Client) -> None:
    page = browser.post(LAUNCHER, typed(place, placement_rule="spread")).content.decode()
    assert "Name the placement group" in page
    assert "invalid" in control(page, "placement_rule")
