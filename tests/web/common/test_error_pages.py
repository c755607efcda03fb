"""Error pages say what happened, what to do, whom to ask, and an id to quote."""

from collections.abc import Callable

import pytest
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.test import Client, RequestFactory

from accounts.models import User
from common.errors import Conflict, NotFound, PermissionDenied, TooManyRequests, Unavailable
from common.pages import error_pages
from tests.conftest import People

BrowserOf = Callable[[User], Client]


def asked_by(user: User | None, *, method: str = "GET") -> HttpRequest:
    request = RequestFactory().generic(method, "/somewhere/?tab=ended")
    request.request_id = "abc123"  # type: ignore[attr-defined]
    if user is not None:
        request.user = user
        request.session = {}  # type: ignore[assignment]
    return request


def text_of(response: HttpResponse) -> str:
    return response.content.decode()


@pytest.mark.parametrize("code", error_pages.WITH_A_TEMPLATE)
def test_error_pages_need_no_database(code: int) -> None:
    page = render_to_string(f"{code}.html", {"error": NotFound("Gone.", hint="Look elsewhere.")})

    assert "Gone." in page
    assert "Look elsewhere." in page
    assert page.count("<h1>") == 1


@pytest.mark.django_db
def test_people_who_are_signed_in_keep_their_menu(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.member).get("/nothing/here/")

    assert page.status_code == 404
    assert 'href="/sessions/"' in text_of(page)
    assert 'id="request-id"' in text_of(page)


@pytest.mark.django_db
def test_a_refusal_names_who_can_help(people: People) -> None:
    refused = PermissionDenied("Only its owner may be inside.")

    page = text_of(error_pages.error_page(asked_by(people.member), refused))
    own = text_of(error_pages.error_page(asked_by(people.domain_admin), refused))
    nobody_there = text_of(error_pages.error_page(asked_by(people.superadmin), refused))

    assert f"mailto:{people.domain_admin.email}" in page
    assert people.superadmin.email not in page
    assert f"mailto:{people.superadmin.email}" in own
    assert f"mailto:{people.domain_admin.email}" in nobody_there


@pytest.mark.django_db
def test_other_refusals_name_nobody(people: People) -> None:
    page = text_of(error_pages.error_page(asked_by(people.member), Conflict("It has ended.")))

    assert "It has ended." in page
    assert "mailto:" not in page


@pytest.mark.django_db
def test_a_method_that_an_address_does_not_take_is_explained(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.member).post("/profile/")

    assert page.status_code == 405
    assert "GET" in page.headers["Allow"]
    assert "Nothing was done." in text_of(page)


def test_what_does_not_answer_is_asked_again_by_the_page_itself() -> None:
    page = text_of(error_pages.error_page(asked_by(None), Unavailable("The engine does not answer.")))
    sent = text_of(error_pages.error_page(asked_by(None, method="POST"), Unavailable("No answer.")))

    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in page
    assert 'data-ask-again-s="10"' in page
    assert 'href="/somewhere/?tab=ended"' in page
    assert "refresh" not in sent


def test_too_many_requests_offer_another_try() -> None:
    page = error_pages.error_page(asked_by(None), TooManyRequests("Wait a minute."))

    assert page.status_code == 429
    assert "Try again" in text_of(page)


@pytest.mark.django_db
def test_a_mistake_of_ours_asks_no_database(
    people: People, django_assert_num_queries: Callable[[int], object]
) -> None:
    request = asked_by(people.member)
    with django_assert_num_queries(0):  # type: ignore[attr-defined]
        page = error_pages.server_error(request)

    assert page.status_code == 500
    assert "abc123" in text_of(page)


def test_a_lost_database_takes_the_menu_but_not_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost:
        @property
        def is_authenticated(self) -> bool:
            raise OperationalError("gone")

    page = error_pages.error_page(asked_by(Lost()), NotFound("Gone."))  # type: ignore[arg-type]

    assert page.status_code == 404
    assert "Gone." in text_of(page)


def test_too_much_at_once_is_told_from_nonsense() -> None:
    assert error_pages.bad_request(asked_by(None), RequestDataTooBig()).status_code == 413
    assert error_pages.bad_request(asked_by(None), ValueError()).status_code == 400


def test_programs_get_json() -> None:
    request = RequestFactory().get("/api/v1/nothing/")

    assert error_pages.error_page(request, NotFound("Gone.")).headers["Content-Type"] == "application/json"


def test_the_sign_in_pages_say_too_often_as_the_others_do() -> None:
    page = render_to_string("429.html", {}, RequestFactory().get("/account/login/"))

    assert "Too often" in page
    assert "Nothing was done." in page
