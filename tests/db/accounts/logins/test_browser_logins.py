"""Browser sessions store their user, so that one query finds and ends all logins of a user."""

from typing import Any

import pytest
from django.test import Client

from accounts.logins.service import end_logins, visible_logins
from accounts.models import BrowserLogin, SessionStore, User
from tests import factories
from tests.factories import actor_for

pytestmark = pytest.mark.django_db


def sign_in(user: User, **headers: str) -> Client:
    browser = Client(headers=headers)
    browser.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
    return browser


def key_of(browser: Client) -> str:
    return browser.session.session_key or ""


def test_a_login_is_listed_for_its_person_alone() -> None:
    owner, other = factories.make_user(), factories.make_user()
    first, second = sign_in(owner), sign_in(owner)
    sign_in(other)
    assert {row.session_key for row in visible_logins(actor_for(owner))} == {key_of(first), key_of(second)}
    assert all(row.signed_in_at and row.seen_at for row in visible_logins(actor_for(owner)))


def test_ending_logins_reads_no_other(django_assert_max_num_queries: Any) -> None:
    owner, other = factories.make_user(), factories.make_user()
    kept, ended, strange = sign_in(owner), sign_in(owner), sign_in(other)
    with django_assert_max_num_queries(3):
        assert end_logins(owner.pk, except_key=key_of(kept)) == 1
    assert kept.get("/profile/").status_code == strange.get("/profile/").status_code == 200
    assert ended.get("/profile/").status_code == 302


def test_anonymous_session_has_no_user() -> None:
    store = SessionStore()
    store["wish"] = "tea"
    store.create()
    row = BrowserLogin.objects.get(session_key=store.session_key)
    assert (row.user_id, row.seen_at) == (None, None)


def test_a_changed_key_keeps_where_the_login_came_from() -> None:
    browser = sign_in(factories.make_user(), user_agent="Harbour/1")
    before = BrowserLogin.objects.get(session_key=key_of(browser))
    store = SessionStore(before.session_key)
    store.cycle_key()
    after = BrowserLogin.objects.get(session_key=store.session_key)
    assert not BrowserLogin.objects.filter(session_key=before.session_key).exists()
    assert (after.user_id, after.ip, after.signed_in_at) == (before.user_id, before.ip, before.signed_in_at)
