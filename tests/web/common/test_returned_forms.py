"""A form opened before a new sign-in is returned filled in and does nothing until it is sent again."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from accounts.models import Domain, KeyPair, User
from tests.addresses import page_addresses
from tests.conftest import People
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db
ORIGIN = "http://localhost:8080"
OWN_PAGE = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
SIGN_IN_ADDRESSES = {
    "/account/login/",
    "/account/2fa/authenticate/",
    "/account/2fa/webauthn/login/",
    "/sign-in/by/x/",
    "/admin/login/",
}
INPUT_VALUES = re.compile(r'name="([^"]*)" value="([^"]*)"')
INPUT = re.compile(r'name="(csrf\w+)" value="([^"]*)"')


def browser() -> Client:
    return Client(enforce_csrf_checks=True, headers={"Host": "localhost:8080"})


def token_in(page: HttpResponse) -> dict[str, str]:
    """The fields of `{% csrf_token %}` in the first form of the content."""
    content = page.content.decode()
    return dict(INPUT.findall(content[content.find("<h1") :])[:2])


def sign_in(client: Client, person: object, **fields: str) -> HttpResponse:
    page = client.get("/account/login/")
    typed = {"login": str(person), "password": PASSWORD, **token_in(page), **fields}
    return client.post("/account/login/", typed, headers=OWN_PAGE)  # type: ignore[return-value]


@pytest.fixture
def stale(people: People) -> tuple[Client, dict[str, str]]:
    """A browser of the member, and the token of a page of before the last sign-in."""
    client = browser()
    sign_in(client, people.member)
    before = token_in(client.get("/sessions/new/"))
    client.post("/account/logout/", before, headers=OWN_PAGE)
    sign_in(client, people.member)
    return client, before


def test_every_form_is_given_back_with_what_was_typed(stale: tuple[Client, dict[str, str]]) -> None:
    client, before = stale
    sent = {**before, "name": "<typed>", "new_password": "hidden", "text": "two\nlines"}
    addresses = [address for address in page_addresses() if address not in SIGN_IN_ADDRESSES]
    assert len(addresses) > 150

    for address in addresses:
        answer = client.post(address, sent, headers=OWN_PAGE)
        page = answer.content.decode()
        assert answer.status_code == 403, address
        assert f'action="{address}"' in page, address
        assert 'value="&lt;typed&gt;"' in page, address
        assert "\ntwo\nlines</textarea>" in page, address
        assert "hidden" not in [value for _name, value in INPUT_VALUES.findall(page)], address
        assert answer["Cache-Control"] == "no-store"


def test_a_form_that_was_given_back_is_sent_by_one_more_press(
    stale: tuple[Client, dict[str, str]], people: People
) -> None:
    client, before = stale
    typed = {"name": "laptop", "scopes": "read", "life": "30"}
    for _reload in range(2):
        given_back = client.post("/profile/tokens/", {**before, **typed}, headers=OWN_PAGE)
        assert "Your sign-in changed since this page was opened." in given_back.content.decode()
        assert not KeyPair.objects.filter(user=people.member).exists()

    client.post("/profile/tokens/", {**typed, **token_in(given_back)}, headers=OWN_PAGE)
    assert KeyPair.objects.get(user=people.member).name == "laptop"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8081", "Sec-Fetch-Site": "same-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {},
    ],
    ids=str,
)
def test_what_another_site_sends_is_refused_and_not_given_back(
    stale: tuple[Client, dict[str, str]], headers: dict[str, str]
) -> None:
    client, before = stale
    for token in ({}, before):
        answer = client.post("/sessions/new/", {**token, "name": "planted"}, headers=headers)
        assert answer.status_code == 403
        assert "planted" not in answer.content.decode()
        assert "without its protection token" in answer.content.decode()


def test_the_second_of_two_sign_in_pages_leads_where_it_would_have_led(people: People) -> None:
    client = browser()
    first, second = (client.get(f"/account/login/?next={to}") for to in ("/sessions/", "/data/"))
    typed = {"login": people.member.email, "password": PASSWORD}
    client.post("/account/login/", {**typed, **token_in(first), "next": "/sessions/"}, headers=OWN_PAGE)

    again = client.post("/account/login/", {**typed, **token_in(second), "next": "/data/"}, headers=OWN_PAGE)
    assert (again.status_code, again["Location"]) == (302, "/data/")
    other = {**typed, **token_in(second), "login": people.outsider.email, "next": "//elsewhere.example/"}
    page = client.post("/account/login/", other, headers=OWN_PAGE, follow=True)
    assert page.redirect_chain[0][0] == "/"
    assert f"signed in as {people.member.email} already" in page.content.decode()


def test_a_form_of_another_persons_page_says_whose_account_is_used_now(people: People) -> None:
    client = browser()
    sign_in(client, people.member)
    before = token_in(client.get("/sessions/new/"))
    client.post("/account/logout/", before, headers=OWN_PAGE)
    sign_in(client, people.outsider)

    page = client.post("/sessions/new/", {**before, "name": "train"}, headers=OWN_PAGE).content.decode()
    assert f"You are signed in as {people.outsider.email} now" in page
    assert people.member.email not in page
    script = {**OWN_PAGE, "HX-Request": "true", "X-Berth-Opened-By": str(people.member.pk)}
    refusal = client.post("/sessions/new/", {"name": "train"}, headers=script)
    assert "X-Berth-Form-Token" not in refusal


def test_what_was_typed_while_the_login_ended_is_not_lost(people: People) -> None:
    client = browser()
    sign_in(client, people.member)
    before = token_in(client.get("/sessions/new/"))
    client.cookies.pop("berth_session")
    file = SimpleUploadedFile("people.csv", b"a")

    answer = client.post("/sessions/new/", {**before, "name": "train", "file": file}, headers=OWN_PAGE)
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "You are signed out." in page
    assert '<a href="/account/login/" target="_blank"' in page
    assert 'value="train"' in page
    assert "A file cannot be given back. Choose it again: people.csv." in page
    assert client.post("/sessions/new/", {**before, "name": "train"}).status_code == 302  # from nowhere


@pytest.mark.parametrize("address", ["/sessions/new/", "/api/v1/keypairs/"])
def test_a_script_gets_the_new_token_and_sends_nothing_by_itself(
    stale: tuple[Client, dict[str, str]], people: People, address: str
) -> None:
    client, before = stale
    headers = {
        **OWN_PAGE, "HX-Request": "true", "X-CSRFToken": before["csrfmiddlewaretoken"], "X-Berth-Opened-By": str(people.member.pk)
    }  # fmt: skip
    refusal = client.post(address, "{}", content_type="application/json", headers=headers)
    assert refusal.status_code == 403
    assert "Your sign-in changed" in refusal.content.decode()

    headers["X-CSRFToken"] = refusal["X-Berth-Form-Token"]
    answer = client.post(address, "{}", content_type="application/json", headers=headers)
    assert answer.status_code in {400, 422}
    assert "X-Berth-Form-Token" not in answer


@pytest.mark.parametrize(
    ("changes", "way", "message"),
    [
        ({"must_change_password": True}, "/account/password/change/", "Your password has to be changed"),
        ({}, "/account/2fa/", "Your domain asks for a second factor"),
    ],
)
def test_what_was_typed_is_not_lost_when_something_is_demanded_first(
    people: People, changes: dict[str, bool], way: str, message: str
) -> None:
    client = browser()
    sign_in(client, people.member)
    typed = {**token_in(client.get("/sessions/new/")), "name": "train"}
    Domain.objects.filter(pk=people.domain.pk).update(second_factor="everybody")
    User.objects.filter(pk=people.member.pk).update(**changes)

    page = client.post("/sessions/new/", typed, headers=OWN_PAGE).content.decode()
    assert 'value="train"' in page
    assert message in page
    assert f'<a href="{way}" target="_blank"' in page
    assert "Sign in" not in page
