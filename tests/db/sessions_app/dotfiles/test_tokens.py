"""Dotfiles written by a token are used only while the token could write them."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from accounts.core.roles import Role
from accounts.credentials import keypairs
from accounts.models import KeyPair, User
from accounts.tenancy.service import update_user
from common import clock
from sessions_app.dotfiles.service import active_files, put_dotfile, set_startup_script
from tests.conftest import People
from tests.factories import actor_for, api_client
from tests.factories_limits import limit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]
FILE, SCRIPT = "/api/v1/dotfiles/file/", "/api/v1/startup-script/"
BrowserOf = Callable[[User], Client]


@pytest.fixture
def token(people: People) -> KeyPair:
    """With which a file and the script were written."""
    client = api_client(people.member)
    assert client.put(FILE, {"path": ".bashrc", "content": "a\n"}).json()["token_name"] == "test"
    assert client.put(SCRIPT, {"content": "date\n"}).json()["is_used"] is True
    return KeyPair.objects.get(user=people.member)


def used(user: User) -> tuple[list[str], str | None]:
    files, script = active_files(user.pk)
    return [file.path for file in files], script


CHANGES: dict[str, Callable[[KeyPair], object]] = {
    "deleted": lambda token: keypairs.delete_keypair(actor=actor_for(token.user), keypair_id=token.pk),
    "off": lambda token: keypairs.update_keypair(
        actor=actor_for(token.user), keypair_id=token.pk, is_active=False
    ),
    "narrowed": lambda token: keypairs.update_keypair(
        actor=actor_for(token.user), keypair_id=token.pk, scopes=["sessions"]
    ),
    "bound": lambda token: limit(token, max_sessions=1),
    "expired": lambda token: KeyPair.objects.filter(pk=token.pk).update(expires_at=clock.now()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_token_wrote_ends_with_it_and_what_a_person_wrote_stays(
    people: People, token: KeyPair, change: str
) -> None:
    put_dotfile(actor=actor_for(people.member), path=".vimrc", content="b")
    assert used(people.member) == ([".bashrc", ".vimrc"], "date\n")
    CHANGES[change](token)
    assert used(people.member) == ([".vimrc"], None)
    set_startup_script(actor=actor_for(people.member), content="uptime\n")
    put_dotfile(actor=actor_for(people.member), path=".bashrc", content="a\n")
    assert used(people.member) == ([".bashrc", ".vimrc"], "uptime\n")


def test_a_token_with_another_secret_is_the_same_token(people: People, token: KeyPair) -> None:
    keypairs.rotate_keypair(actor=actor_for(people.member), keypair_id=token.pk)
    assert used(people.member) == ([".bashrc"], "date\n")


def test_a_token_that_takes_over_a_persons_file_ends_it_with_itself(people: People, token: KeyPair) -> None:
    put_dotfile(actor=actor_for(people.member), path=".vimrc", content="b")
    api_client(people.member).put(FILE, {"path": ".vimrc", "content": "c"})
    KeyPair.objects.all().delete()
    assert used(people.member) == ([], None)


def test_a_higher_role_does_not_take_along_what_a_token_planted(people: People, token: KeyPair) -> None:
    update_user(actor=actor_for(people.superadmin), user_id=people.member.pk, role=Role.DOMAIN_ADMIN)
    assert used(people.member) == ([], None)


def test_the_page_and_rest_say_which_token_wrote_what(
    people: People, token: KeyPair, browser_of: BrowserOf
) -> None:
    browser = browser_of(people.member)
    shown = browser.get(reverse("dotfiles")).content.decode()
    assert shown.count("written by the token “test”") == 2
    KeyPair.objects.filter(pk=token.pk).update(expires_at=clock.now() - timedelta(days=1))
    shown = browser.get(reverse("dotfiles")).content.decode()
    assert shown.count("Not used any more: it was written by the token “test”") == 2
    client = api_client(people.member)
    [listed] = client.get("/api/v1/dotfiles/").json()["results"]
    assert (listed["token_name"], listed["is_used"]) == ("test", False)
    assert client.get(SCRIPT).json()["is_used"] is False

    browser.post(f"{reverse('dotfiles')}?path=.bashrc", {"path": ".bashrc", "content": "a\n", "mode": "0644"})
    browser.post(reverse("set-startup-script"), {"content": "date\n"})
    assert used(people.member) == ([".bashrc"], "date\n")
    assert "by the token" not in browser.get(reverse("dotfiles")).content.decode()
