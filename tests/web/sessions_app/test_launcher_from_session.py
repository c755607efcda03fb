"""The launcher filled from an earlier session, with its variables for its owner only."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import AgentSlot
from images.models import ContainerImage
from sessions_app.callbacks.signing_secret import make_callback_secret
from sessions_app.models import ComputeSession
from tests.factories import actor_for, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place
from tests.web.accounts.test_impersonation import look_as
from tests.web.sessions_app.test_launcher import LAUNCHER, control

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def test_a_session_like_an_earlier_one_begins_with_all_it_had(
    place: Place, browser: Client, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    data, other = make_folder(place.owner, name="data"), make_folder(place.owner, name="other")
    AgentSlot.objects.create(agent=place.agent, slot_name="cuda", capacity=2000)
    make_callback_secret(actor=actor_for(place.owner))
    earlier = place.enqueue(
        name="train-1",
        type="batch",
        command="make all",
        timeout_s=60,
        priority=-5,
        pending_timeout_s=5400,
        max_retries=2,
        requeues=True,
        callback_url="https://ci.example/t?token=geheim",
        designated_agent=place.agent.name,
        may_run_elsewhere=True,
        placement_group="sweep",
        placement_rule="strict_pack",
        resources={"cpu": 1.5, "mem": "1536m", "shm": "128m", "cuda": 1},
        environment={"TOKEN": "geheim", "TEXT": "a\nb", "ODD": "$'x'"},
        mounts=[{"folder": "data", "path": "/home/work/in", "readonly": True}, {"folder": "other"}],
    )

    page = browser.get(LAUNCHER, {"like": earlier.pk}).content.decode()
    sent = sent_by(page)
    browser.post(LAUNCHER, {**sent, "name": "train-2"})

    assert f"like={earlier.pk}" in browser.get(f"/sessions/{earlier.pk}/").content.decode() or earlier.is_live
    again = ComputeSession.objects.get(name="train-2")
    assert "pack strictly: sweep" in browser.get(f"/sessions/{again.pk}/").content.decode()
    for field in (
        "type",
        "command",
        "timeout_s",
        "priority",
        "pending_timeout_s",
        "max_retries",
        "requeues",
        "requested_slots",
        "shm_bytes",
        "environment",
        "image_reference",
        "designated_agent",
        "may_run_elsewhere",
        "placement_group",
        "placement_rule",
    ):
        assert getattr(again, field) == getattr(earlier, field), field
    assert again.callback.url == "https://ci.example/t?token=geheim"
    assert [(mount.folder_id, mount.path, mount.is_readonly) for mount in again.mounts.all()] == [
        (data.pk, "/home/work/in", True),
        (other.pk, "/home/work/other", False),
    ]


def test_after_a_change_the_address_counts_and_variables_are_still_those_of_the_session(
    place: Place, browser: Client
) -> None:
    earlier = place.enqueue(name="train", environment={"TOKEN": "geheim"}, resources={"cpu": 3, "mem": "1g"})

    page = browser.get(LAUNCHER, {"like": earlier.pk, "name": "x", "cpu": "2"}).content.decode()

    assert 'value="2"' in control(page, "cpu")
    assert 'value="2g"' in control(page, "mem")
    assert "TOKEN=geheim" in control(page, "environment")


def test_an_address_can_say_what_to_change_of_an_earlier_session(place: Place, browser: Client) -> None:
    earlier = place.enqueue(name="train", resources={"cpu": 1, "mem": "2g"})

    page = browser.get(LAUNCHER, {"like": earlier.pk, "mem": "4g"}).content.decode()

    assert 'value="1"' in control(page, "cpu")
    assert 'value="4g"' in control(page, "mem")
    assert re.search(r'value="custom" checked', page)
    assert 'value="train-1"' in control(page, "name")


@pytest.mark.parametrize(("like", "words"), [("x", "names no session"), (uuid4(), "no such session among")])
def test_a_session_that_is_not_there_begins_nothing(browser: Client, like: object, words: str) -> None:
    page = browser.get(LAUNCHER, {"like": like})

    assert page.status_code == 200
    assert words in page.content.decode()


def test_nobody_begins_with_the_variables_of_another(place: Place, browser_of: BrowserOf) -> None:
    earlier = place.enqueue(environment={"TOKEN": "geheim"})
    for person in (make_user(admin_of=place.project), make_user(member_of=place.project)):
        assert "geheim" not in browser_of(person).get(LAUNCHER, {"like": earlier.pk}).content.decode()


def test_who_looks_at_the_portal_as_the_owner_is_shown_no_variables(place: Place) -> None:
    earlier = place.enqueue(name="train", environment={"TOKEN": "geheim"}, resources={"cpu": 1, "mem": "2g"})
    looking = look_as(place.owner, make_user(role=Role.SUPERADMIN))

    for query in ({}, {"name": "x"}):
        page = looking.get(LAUNCHER, {"like": earlier.pk, **query}).content.decode()

        assert 'value="2g"' in control(page, "mem")
        assert "TOKEN" not in page
        assert "geheim" not in page


def test_an_image_that_was_replaced_gives_way_to_its_successor(place: Place, browser: Client) -> None:
    earlier = place.enqueue()
    ContainerImage.objects.update(is_enabled=False)
    newer = ContainerImage.objects.create(reference="berth/test:newer", architecture="x86_64")

    page = browser.get(LAUNCHER, {"like": earlier.pk}).content.decode()

    assert re.search(rf'value="{newer.reference}"[^>]* checked', page)


def sent_by(page: str) -> dict[str, Any]:
    """What a browser would send for the form of this page."""
    form = page[page.index("data-launcher") : page.index("</form>", page.index("data-launcher"))]
    sent: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        kind, name, value = (re.search(rf'{key}="([^"]*)"', tag) for key in ("type", "name", "value"))
        if name is None or (kind and kind[1] in ("checkbox", "radio") and " checked" not in tag):
            continue
        sent.setdefault(name[1], []).append(unescape(value[1]) if value else "")
    for name, text in re.findall(r'<textarea[^>]*name="(\w+)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        sent[name] = unescape(text)
    for name, options in re.findall(r'<select[^>]*name="(\w+)".*?>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
        sent[name] = chosen[1] if chosen else ""
    return sent
