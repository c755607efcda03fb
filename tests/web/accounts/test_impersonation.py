"""Impersonation: start, restricted pages, and everything that ends it."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.core.roles import Role
from accounts.logins import service
from accounts.logins.impersonation import impersonated_actor, start_impersonation
from accounts.logins.service import Login, valid_logins
from accounts.models import BrowserLogin, Impersonation, OffBoarding, User
from accounts.sign_in.admin_control import update_sign_in
from accounts.tenancy import offboarding
from accounts.tenancy.service import update_user
from common import clock
from common.actors import SYSTEM
from common.errors import NotAuthenticated, PermissionDenied
from common.models import AuditEntry
from sessions_app.callbacks.signing_secret import make_callback_secret
from sessions_app.session_templates.templates import create_template
from tests import factories
from tests.conftest import People
from tests.factories import PASSWORD, actor_for
from tests.factories_sessions import make_place
from tests.web.accounts.test_second_factor import browser_of

pytestmark = pytest.mark.django_db
START, STOP = "accounts.view_as", "accounts.stop_viewing"


@pytest.fixture(autouse=True)
def _unthrottled(settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = False
    cache.clear()


def confirmed(user: User) -> Client:
    """A browser in which somebody has just said again that it is they."""
    browser = browser_of(user)
    browser.post("/account/reauthenticate/", {"password": PASSWORD})
    return browser


def look_as(person: User, viewer: User) -> Client:
    browser = confirmed(viewer)
    answer = browser.post(f"/people/{person.pk}/view-as/", {"reason": "A question"})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    return browser


def who(browser: Client) -> str:
    answer = browser.get("/api/v1/me/")
    return str(answer.json().get("email", answer.status_code))


def ends() -> list[str]:
    return list(AuditEntry.objects.filter(action=STOP).values_list("reason", flat=True))


def test_it_begins_with_a_reason_and_once_more_the_password_and_ends_by_a_button(people: People) -> None:
    browser = browser_of(people.domain_admin)
    address = f"/people/{people.member.pk}/view-as/"
    assert address in browser.get(f"/people/{people.member.pk}/").content.decode()
    assert "/account/reauthenticate/" in browser.get(address)["Location"]
    assert "/account/reauthenticate/" in browser.post(address, {"reason": "x"})["Location"]
    browser.post("/account/reauthenticate/", {"password": PASSWORD})
    assert "It ends by itself after 30 minutes" in browser.get(address).content.decode()
    assert browser.post(address, {"reason": " "}).status_code == 422
    assert browser.post(address, {"reason": "x" * 201}).status_code == 422
    browser.post(address, {"reason": "Cannot start sessions"})

    page = browser.get("/profile/").content.decode()
    assert f"Impersonating {people.member.email}" in page
    assert f"You are {people.domain_admin.email}" in page
    assert who(browser) == people.member.email
    assert browser.get("/people/").status_code == 404  # the member has no such page
    stopped = browser.post("/viewing/stop/")
    assert stopped["Location"] == f"/people/{people.member.pk}/"
    assert "you are yourself again" in browser.get(stopped["Location"]).content.decode()
    assert who(browser) == people.domain_admin.email
    assert browser.post("/viewing/stop/")["Location"] == "/"

    for line in AuditEntry.objects.filter(action__in=(START, STOP)):
        assert (line.actor_id, line.acted_as_id) == (people.domain_admin.pk, people.member.pk)
        assert (line.target_id, line.domain_id) == (str(people.member.pk), people.domain.pk)
    assert AuditEntry.objects.get(action=START).changes["reason"] == "Cannot start sessions"
    assert ends() == ["stopped"]


def test_user_sees_who_impersonated_without_address(people: People) -> None:
    look_as(people.member, people.superadmin).post("/data/", {"name": "x"})
    mine = browser_of(people.member)
    profile = mine.get("/profile/").content.decode()
    assert f"{people.superadmin.email} impersonated you" in profile
    assert "127.0.0.1" not in profile
    activity = mine.get("/profile/activity/").content.decode()
    assert f"acting as {people.member.email}" in activity
    refused = AuditEntry.objects.get(reason="only_looking")
    assert (refused.actor_id, refused.acted_as_id) == (people.superadmin.pk, people.member.pk)


def test_user_does_not_see_addresses_of_impersonators(people: People) -> None:
    look_as(people.member, people.domain_admin).post("/data/", {"name": "x"})
    AuditEntry.objects.filter(acted_as_id=people.member.pk).update(ip="203.0.113.7", user_agent="Firefox/1")
    line = AuditEntry.objects.get(reason="only_looking")
    mine, governing = browser_of(people.member), browser_of(people.domain_admin)
    for address in (
        "/profile/activity/",
        "/profile/activity/export/",
        f"/audit/{line.pk}/",
        "/api/v1/audit/",
    ):
        text = b"".join(mine.get(address)).decode()
        assert people.domain_admin.email in text, address
        assert "203.0.113.7" not in text, address
        assert "Firefox" not in text, address
    assert "203.0.113.7" in governing.get(f"/audit/{line.pk}/").content.decode()


@pytest.mark.parametrize(
    ("viewer", "person", "status"),
    [
        ("superadmin", "member", 302),
        ("superadmin", "domain_admin", 302),
        ("superadmin", "stranger", 302),
        ("superadmin", "superadmin", 403),
        ("superadmin", "monitor", 403),
        ("superadmin", "domain_monitor", 403),
        ("domain_admin", "project_admin", 302),
        ("domain_admin", "superadmin", 403),
        ("domain_admin", "domain_admin", 403),
        ("domain_admin", "domain_monitor", 403),
        ("domain_admin", "stranger", 404),
        ("project_admin", "member", 403),
        ("member", "outsider", 404),
        ("monitor", "member", 403),
    ],
)
def test_permissions_to_impersonate(people: People, viewer: str, person: str, status: int) -> None:
    others = {
        "monitor": factories.make_user(domain=people.domain, role=Role.MONITOR),
        "domain_monitor": factories.make_user(domain=people.domain, role=Role.DOMAIN_MONITOR),
    }
    named = {name: others.get(name) or getattr(people, name) for name in {viewer, person}}
    browser = confirmed(named[viewer])
    answer = browser.post(f"/people/{named[person].pk}/view-as/", {"reason": "A question"})
    assert answer.status_code == status
    assert Impersonation.objects.exists() == (status == 302)
    page = browser_of(named[viewer]).get(f"/people/{named[person].pk}/")
    assert ("/view-as/" in page.content.decode()) == (status == 302)


def test_it_can_be_switched_off(people: People, settings: Any) -> None:
    browser = look_as(people.member, people.domain_admin)
    settings.BERTH_VIEW_AS_MINUTES = 0
    assert who(browser) == "403"
    assert who(browser) == people.domain_admin.email
    assert "/view-as/" not in browser.get(f"/people/{people.member.pk}/").content.decode()
    assert browser.get(f"/people/{people.member.pk}/view-as/").status_code == 403


def time_passes(people: People) -> None:
    past = clock.now() - timedelta(hours=1)
    Impersonation.objects.update(began_at=past, ends_at=past + timedelta(minutes=30))


def person_is_closed(people: People) -> None:
    offboarding.close_user(
        actor=SYSTEM, user_id=people.member.pk, folders=OffBoarding.Folders.KEEP, new_owner=None
    )


def person_rises(people: People) -> None:
    update_user(actor=SYSTEM, user_id=people.member.pk, role=Role.MONITOR)


def viewer_falls(people: People) -> None:
    update_user(actor=SYSTEM, user_id=people.domain_admin.pk, role=Role.USER)


def viewer_has_to_change_the_password(people: People) -> None:
    update_sign_in(actor=SYSTEM, user_id=people.domain_admin.pk, must_change_password=True)


ENDS = {
    time_passes: "time_over",
    person_is_closed: "account_closed",
    person_rises: "permission_denied",
    viewer_falls: "permission_denied",
    viewer_has_to_change_the_password: "password_demanded",
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_what_ends_it_ends_it_at_the_next_request_and_streams_within_seconds(
    people: People, end: Any
) -> None:
    browser = look_as(people.member, people.domain_admin)
    stream = Login(user_id=people.member.pk, session_key=browser.session.session_key or "")
    assert valid_logins([stream]) == {stream: people.member}
    end(people)
    assert valid_logins([stream]) == {}

    refused = browser.post("/data/", {"name": "mine"})  # a page that was open meanwhile
    assert refused.status_code == 403
    assert "no longer impersonate" in refused.content.decode()
    assert ends() == [ENDS[end]]
    assert not Impersonation.objects.exists()
    assert who(browser) in {people.domain_admin.email, "403"}


def test_a_page_that_is_opened_after_the_end_is_ones_own(people: People) -> None:
    browser = look_as(people.member, people.domain_admin)
    time_passes(people)
    page = browser.get("/people/")
    assert page.status_code == 200
    assert "you are yourself again" in page.content.decode()
    assert "viewing-banner" not in page.content.decode()


@pytest.mark.parametrize("way", ["signed out", "ended elsewhere", "closed"])
def test_it_ends_with_the_login_and_that_is_in_the_access_log(people: People, way: str) -> None:
    browser = look_as(people.member, people.domain_admin)
    if way == "signed out":
        browser.post("/account/logout/")
        signed_out = AuditEntry.objects.get(action="accounts.sign_out")
        assert (signed_out.actor_id, signed_out.acted_as_id) == (people.domain_admin.pk, None)
    elif way == "closed":
        keep = OffBoarding.Folders.KEEP
        offboarding.close_user(actor=SYSTEM, user_id=people.domain_admin.pk, folders=keep, new_owner=None)
    else:
        service.end_logins(people.domain_admin.pk)
    assert browser.get("/profile/").status_code == 302
    assert ends() == ["signed_out" if way == "signed out" else "login_ended"]
    line = AuditEntry.objects.get(action=STOP)
    assert (line.actor_id, line.acted_as_id) == (people.domain_admin.pk, people.member.pk)


def test_late_ends_say_that_the_time_was_over(people: People) -> None:
    look_as(people.member, people.domain_admin)
    time_passes(people)
    BrowserLogin.objects.all().delete()
    assert ends() == ["time_over"]


def test_pages_of_before_send_nothing_and_mix_nothing(people: People) -> None:
    browser = look_as(people.member, people.domain_admin)
    own = {"X-Berth-Viewing": ""}
    seen = {"X-Berth-Viewing": str(Impersonation.objects.get().pk), "HX-Request": "true"}
    assert browser.get("/sessions/", headers=seen).status_code == 200
    mixed = browser.get("/sessions/", headers={**own, "HX-Request": "true"})
    assert (mixed.status_code, mixed["HX-Refresh"]) == (409, "true")

    careful = Client(enforce_csrf_checks=True)
    careful.cookies = browser.cookies
    token = careful.get("/profile/").context["csrf_token"]
    careful.post("/viewing/stop/", {"csrfmiddlewaretoken": str(token)})
    assert who(careful) == people.domain_admin.email
    old = careful.post("/language/", {"language": "ko", "csrfmiddlewaretoken": str(token)})
    assert old.status_code == 403
    assert careful.get("/sessions/", headers=seen).status_code == 409
    assert careful.get("/sessions/", headers=own).status_code == 200


def test_what_is_kept_with_the_login_stays_the_viewers(people: People) -> None:
    factories.make_user(member_of=people.project)
    browser = confirmed(people.superadmin)
    browser.post("/language/", {"language": "ja"})
    session = browser.session
    session["chosen_project"] = "elsewhere"
    session.save()
    browser.post(f"/people/{people.member.pk}/view-as/", {"reason": "A question"})
    page = browser.get("/profile/")
    assert page.context["chosen_project"] == ""
    assert 'lang="ja"' in page.content.decode()
    people.member.refresh_from_db()
    assert people.member.language == ""


def test_a_second_person_takes_the_place_of_the_first(people: People) -> None:
    browser = look_as(people.member, people.domain_admin)
    key = browser.session.session_key or ""
    actor = actor_for(people.domain_admin)
    start_impersonation(actor=actor, login_key=key, user_id=people.outsider.pk, reason="Another")
    assert who(browser) == people.outsider.email
    assert ends() == ["stopped"]
    with pytest.raises(NotAuthenticated):
        start_impersonation(actor=actor, login_key="absent", user_id=people.outsider.pk, reason="Another")


def test_nothing_that_records_is_done_for_a_viewer_whatever_let_it_through(people: People) -> None:
    looking = impersonated_actor(actor_for(people.superadmin), people.domain_admin)
    with pytest.raises(PermissionDenied, match="Impersonation is read-only"):
        update_user(actor=looking, user_id=people.domain_admin.pk, name="Mallory")
    people.domain_admin.refresh_from_db()
    assert people.domain_admin.name != "Mallory"


def test_own_terminals_of_before_go_on_and_others_do_not_look(people: People) -> None:
    browser = look_as(people.member, people.domain_admin)
    key = browser.session.session_key or ""
    own = Login(user_id=people.domain_admin.pk, session_key=key)
    someone = Login(user_id=people.outsider.pk, session_key=key)
    assert set(valid_logins([own, someone])) == {own}


def test_templates_hide_variables_from_impersonators(people: People) -> None:
    place = make_place()
    make_callback_secret(actor=actor_for(place.owner))
    address = "https://ci.example/hook?key=verborgen"
    earlier = place.enqueue(environment={"TOKEN": "geheim"}, callback_url=address)
    body = place.request(environment={"GREETING": "geheim"})
    template, _ = create_template(actor=actor_for(place.owner), name="mine", sharing="own", body=body)
    looking = look_as(place.owner, people.superadmin)
    new = looking.get("/sessions/templates/new/", {"session": earlier.pk})
    launcher = looking.get("/sessions/new/", {"template": template.pk})
    rest = "/api/v1/session-templates/"
    one = looking.get(f"{rest}{template.pk}/")

    assert new.status_code == 403
    assert launcher.context["form"]["image"].value() == place.image.reference
    assert one.json()["body"]["image"] == place.image.reference
    for answer in (new, launcher, looking.get(rest), one):
        assert "geheim" not in answer.content.decode()
        assert "verborgen" not in answer.content.decode()

    own = browser_of(place.owner)
    assert "geheim" in own.get(rest).content.decode()
    begun = own.get("/sessions/templates/new/", {"session": earlier.pk}).content.decode()
    assert "geheim" in begun
    assert "verborgen" not in begun
