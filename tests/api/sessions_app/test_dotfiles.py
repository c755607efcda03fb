"""REST and page of dotfiles and the start-up script."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.credentials.keypairs import rotate_keypair
from accounts.models import KeyPair, User
from common.models import AuditEntry
from sessions_app.core.dotfile_rules import MAX_CONTENT_BYTES, MAX_DOTFILES
from sessions_app.dotfiles.service import put_dotfile
from sessions_app.models import Dotfile, StartupScript
from tests.conftest import People
from tests.factories import actor_for, api_client, make_token
from tests.factories_limits import limit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
FILE, SCRIPT = "/api/v1/dotfiles/file/", "/api/v1/startup-script/"


def test_dotfile_is_stored_shown_replaced_and_removed(people: People) -> None:
    client = api_client(people.member)
    made = client.put(FILE, {"path": ".bashrc", "content": "alias a=b\n"})
    assert (made.status_code, made.data["mode"], made.data["size_bytes"]) == (201, "0644", 10)
    assert client.put(FILE, {"path": ".bashrc", "content": "", "mode": "600"}).status_code == 200
    listed = client.get("/api/v1/dotfiles/").data["results"]
    assert [(each["path"], each["mode"]) for each in listed] == [(".bashrc", "0600")]
    assert client.get(f"{FILE}?path=.bashrc").data["content"] == ""
    assert client.delete(f"{FILE}?path=.bashrc").status_code == 204
    assert client.get(f"{FILE}?path=.bashrc").status_code == 404
    assert client.delete(FILE).status_code == 400
    assert not any("alias" in str(entry.changes) for entry in AuditEntry.objects.all())


def test_files_are_their_persons_alone(people: People) -> None:
    put_dotfile(actor=actor_for(people.member), path=".bashrc", content="secret")
    for other in (people.project_admin, people.domain_admin, people.superadmin):
        assert api_client(other).get(f"{FILE}?path=.bashrc").status_code == 404
        assert api_client(other).get("/api/v1/dotfiles/").data["count"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"path": "../x", "content": ""}, "path"),
        ({"path": ".ssh/authorized_keys", "content": ""}, "path"),
        ({"path": "x", "content": "x" * (MAX_CONTENT_BYTES + 1)}, "content"),
        ({"path": "x", "content": "a\0"}, "content"),
        ({"path": "x", "content": "", "mode": "4755"}, "mode"),
        ({"path": "x"}, "content"),
    ],
)
def test_wrong_files_are_refused_at_their_field(people: People, body: dict[str, str], field: str) -> None:
    refused = api_client(people.member).put(FILE, body)
    assert (refused.status_code, set(refused.data["fields"])) == (400, {field})


def test_a_file_stands_in_no_others_way(people: People) -> None:
    actor = actor_for(people.member)
    put_dotfile(actor=actor, path=".config/git", content="")
    refused = api_client(people.member).put(FILE, {"path": ".config", "content": ""})
    assert (refused.status_code, refused.data["code"]) == (409, "conflict")


def test_number_of_dotfiles_is_limited(people: People) -> None:
    Dotfile.objects.bulk_create(Dotfile(user=people.member, path=f"f{n}") for n in range(MAX_DOTFILES))
    client = api_client(people.member)
    assert client.put(FILE, {"path": "one-more", "content": ""}).status_code == 422
    assert client.put(FILE, {"path": "f1", "content": "changed"}).status_code == 200


@pytest.mark.parametrize(
    ("route", "body"), [(FILE, {"path": ".bashrc", "content": "x"}), (SCRIPT, {"content": "x"})]
)
def test_a_token_that_reaches_less_leaves_nothing_for_later_sessions(
    people: People, route: str, body: dict[str, str]
) -> None:
    for scopes in (("sessions",), ("sessions", "folders"), ("sessions", "admin")):
        weak = APIClient(HTTP_AUTHORIZATION=f"Bearer {make_token(people.member, scopes=scopes)}")
        refused = weak.put(route, body)
        assert (refused.status_code, refused.data["code"]) == (403, "scope_missing"), scopes
    whole = APIClient(HTTP_AUTHORIZATION=f"Bearer {make_token(people.member)}")
    token = KeyPair.objects.filter(user=people.member).latest("pk")
    limit(token, max_sessions=1)
    assert whole.put(route, body).status_code == 403
    KeyPair.objects.update(policy=None)
    rotate_keypair(actor=actor_for(people.member), keypair_id=token.pk, grace=timedelta(hours=1))
    assert whole.get("/api/v1/dotfiles/").status_code == 200
    assert whole.put(route, body).status_code == 403
    assert not Dotfile.objects.exists()
    assert not StartupScript.objects.exists()


def test_a_script_is_set_shown_and_removed(people: People) -> None:
    client = api_client(people.member)
    assert client.get(SCRIPT).status_code == 404
    assert client.put(SCRIPT, {"content": "  \n"}).status_code == 400
    assert client.put(SCRIPT, {"content": "date\n"}).data["content"] == "date\n"
    assert client.delete(SCRIPT).status_code == 204
    assert client.delete(SCRIPT).status_code == 404


def test_the_page_keeps_files_and_script_without_javascript(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    page = reverse("dotfiles")
    browser.post(page, {"path": ".bashrc", "content": "a\r\nb\r\n", "mode": "0600"})
    assert Dotfile.objects.get().content == "a\nb\n"
    shown = browser.get(f"{page}?path=.bashrc").content.decode()
    assert "a\nb" in shown
    browser.post(f"{page}?path=.bashrc", {"path": "other", "content": "<b>", "mode": "0600"})
    assert list(Dotfile.objects.values_list("path", "content")) == [(".bashrc", "<b>")]
    refused = browser.post(page, {"path": "/etc/x", "content": "typed", "mode": "0644"})
    assert refused.status_code == 400
    assert "typed" in refused.content.decode()
    assert browser.get(f"{page}?path=absent").status_code == 404
    browser.post(reverse("set-startup-script"), {"content": "date\r\n"})
    assert StartupScript.objects.get().content == "date\n"
    assert browser.post(reverse("set-startup-script"), {"content": " "}).status_code == 400
    browser.post(reverse("remove-startup-script"))
    browser.post(reverse("remove-dotfile"), {"path": ".bashrc"})
    assert not Dotfile.objects.exists()
    assert not StartupScript.objects.exists()
