"""Rules that every page keeps."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client, override_settings

from accounts.models import User
from common.templatetags.berth import icon_names
from tests.conftest import People

ROOT = Path(__file__).parents[3]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
BrowserOf = Callable[[User], Client]

# What the Content-Security-Policy would refuse, and controls that need Bootstrap's scripts, which are not here.
FORBIDDEN = {
    "inline style": re.compile(r"\sstyle="),
    "inline handler": re.compile(r"\son[a-z]+="),
    "script without a file": re.compile(r"<script(?![^>]*\bsrc=)"),
    "script of another host": re.compile(r"(src|href)=\"(https?:)?//"),
    "Bootstrap script": re.compile(r"data-bs-(toggle|target|dismiss)"),
    "htmx that needs eval": re.compile(r"hx-(on|vals=.js:)"),
}
ICON = re.compile(r"""(?:\{% icon |icon_name=)["']([a-z0-9-]+)["']""")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_templates_keep_to_the_policy(path: Path) -> None:
    text = path.read_text()
    broken = [name for name, pattern in FORBIDDEN.items() if pattern.search(text)]
    unknown = set(ICON.findall(text)) - icon_names()

    assert not broken
    assert not unknown, "add them to static/src/icons.json"


def test_icons_are_listed_once_and_in_order() -> None:
    names = json.loads((ROOT / "static/src/icons.json").read_text())

    assert names == sorted(set(names))


@pytest.mark.django_db
def test_pages_allow_no_inline_code(people: People, browser_of: BrowserOf) -> None:
    policy = browser_of(people.member).get("/data/").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.django_db
def test_the_frame_says_where_and_who_one_is(people: People, browser_of: BrowserOf) -> None:
    text = browser_of(people.member).get("/data/").content.decode()

    assert "<title>Data · Berth</title>" in text
    assert "<h1>Data</h1>" in text
    assert re.search(r'href="/data/"[^>]*aria-current="page"', text)
    assert people.member.email in text


@pytest.mark.django_db
def test_only_superadmins_are_led_to_the_admin_site(people: People, browser_of: BrowserOf) -> None:
    menu_of = {
        person: browser_of(person).get("/profile/").content.decode()
        for person in (people.superadmin, people.domain_admin)
    }

    assert 'href="/administration/"' in menu_of[people.superadmin]
    assert 'href="/administration/"' not in menu_of[people.domain_admin]


@pytest.mark.django_db
def test_signing_out_is_a_post(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    browser.post("/account/logout/")

    assert browser.get("/data/").status_code == 302


@pytest.mark.django_db
def test_the_sign_in_page_marks_what_is_wrong(client: Client) -> None:
    page = client.post("/account/login/", {"login": "not-an-address", "password": "x"})

    assert "is-invalid" in page.content.decode()
    assert 'value="not-an-address"' in page.content.decode()


@pytest.mark.django_db
def test_an_unknown_address_is_a_page_with_an_id_to_quote(client: Client) -> None:
    page = client.get("/nothing/here/")

    assert page.status_code == 404
    assert "data-error" in page.content.decode()
    assert 'id="request-id"' in page.content.decode()


@pytest.mark.django_db
def test_the_style_guide_shows_every_component(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.superadmin).get("/styleguide/").content.decode()
    shown = {
        "status-badge",
        "meter-bar",
        "steps-line",
        "history",
        "tabs",
        "chips",
        "copy-field",
        "confirm",
        "notice",
        "toast-card",
        "drawer",
        "loading",
        "announcement",
        "palette",
    }

    assert {name for name in shown if name not in page} == set()


@pytest.mark.django_db
def test_what_can_be_undone_is_a_toast_with_its_way_back(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.superadmin)

    page = browser.post("/styleguide/", follow=True).content.decode()
    toasts = page.partition('id="toasts"')[2]

    assert "Session “train” is stopped." in toasts
    assert '<input type="hidden" name="sample" value="1">' in toasts
    assert "Session “train” is stopped." not in page.partition('id="messages"')[2].partition("<header")[0]
    assert "Taken back." in browser.post("/styleguide/", {"sample": "1"}, follow=True).content.decode()


@pytest.mark.django_db
@override_settings(ALLOWED_HOSTS=["192.0.2.7"])
def test_under_a_name_without_app_hosts_the_page_says_what_helps(
    people: People, browser_of: BrowserOf
) -> None:
    browser = browser_of(people.superadmin)

    page = browser.get("/styleguide/", headers={"host": "192.0.2.7:8080"}).content.decode()

    assert "192.0.2.7" in page
    assert "ssh -L" in page
