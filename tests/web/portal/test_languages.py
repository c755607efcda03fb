"""Pages in the browser's language or in the chosen one."""

from dataclasses import replace

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation

from sessions_app.core.states import REASON_SENTENCES, Reason
from tests.factories import PASSWORD, api_client, make_user

KOREAN, JAPANESE = "로그인", "サインイン"


def page_in(browser: Client, path: str, **headers: str) -> str:
    return browser.get(path, headers=headers).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "language", "words"),
    [
        ("ko-KR,ko;q=0.9,en;q=0.5", "ko", KOREAN),
        ("ja", "ja", JAPANESE),
        ("fr, ja;q=0.5", "ja", JAPANESE),
        ("fr", "en", "Sign in"),
        ("", "en", "Sign in"),
        ("x" * 5000, "en", "Sign in"),
    ],
)
def test_the_browser_says_the_language(client: Client, asked: str, language: str, words: str) -> None:
    page = page_in(client, reverse("account_login"), **{"Accept-Language": asked})

    assert f'<html lang="{language}">' in page
    assert f"<h1>{words}</h1>" in page
    assert ("words." in page) == (language != "en")


@pytest.mark.django_db
def test_a_choice_is_a_cookie_and_follows_the_person_to_other_browsers(client: Client) -> None:
    user = make_user()
    client.force_login(user)

    answer = client.post(reverse("choose-language"), {"language": "ja", "back": "/data/"})

    cookie = answer.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (answer["Location"], cookie.value) == ("/data/", "ja")
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert '<html lang="ja">' in page_in(client, "/", **{"Accept-Language": "ko"})
    elsewhere = Client()
    elsewhere.post(reverse("account_login"), {"login": user.email, "password": PASSWORD})
    assert '<html lang="ja">' in page_in(elsewhere, "/", **{"Accept-Language": "ko"})


@pytest.mark.django_db
def test_before_signing_in_the_choice_is_of_the_browser_alone(client: Client) -> None:
    user = make_user()
    client.post(reverse("choose-language"), {"language": "ko", "back": reverse("account_login")})

    assert KOREAN in page_in(client, reverse("account_login"))
    user.refresh_from_db()
    assert user.language == ""


@pytest.mark.django_db
def test_sentences_that_rows_keep_are_read_in_each_language() -> None:
    kept = replace(REASON_SENTENCES[Reason.IMAGE_PULL_FAILED], quote="no such host")
    said = {}
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            said[language] = str(kept)

    assert len(set(said.values())) == 3
    assert all(sentence.endswith("(no such host)") for sentence in said.values())


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["ko", "ja"])
def test_a_program_may_ask_for_a_language_too(language: str) -> None:
    """REST says its sentences in the language that is asked for; codes stay."""
    client = api_client(make_user())
    plain = client.get("/api/v1/sessions/?page=99").json()

    refusal = client.get("/api/v1/sessions/?page=99", headers={"Accept-Language": language}).json()

    assert refusal["code"] == plain["code"] == "not_found"
    assert refusal["message"] != plain["message"]


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["", "xx", "../ko", "KO\n"])
def test_a_language_that_is_not_there_is_refused(client: Client, language: str) -> None:
    answer = client.post(reverse("choose-language"), {"language": language})

    assert (answer.status_code, settings.LANGUAGE_COOKIE_NAME in answer.cookies) == (400, False)
