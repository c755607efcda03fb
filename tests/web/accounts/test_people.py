"""Pages of users, projects and domains."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import Role
from accounts.models import Domain, Membership, Project, ResourcePolicy, User
from accounts.tenancy import offboarding, service
from accounts.tenancy.offboarding import continue_offboardings
from common.actors import SYSTEM
from tests.conftest import People
from tests.factories import PASSWORD, make_domain, make_project, make_user
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db

BrowserOf = Callable[[User], Client]


def words(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.mark.parametrize(
    ("person", "links"),
    [
        ("superadmin", {"/people/", "/projects/", "/domains/"}),
        ("domain_admin", {"/people/", "/projects/"}),
        ("project_admin", {"/projects/"}),
        ("member", set()),
    ],
)
def test_the_menu_leads_each_administrator_to_what_is_theirs(
    people: People, browser_of: BrowserOf, person: str, links: set[str]
) -> None:
    browser = browser_of(getattr(people, person))
    start = words(browser.get("/"))
    assert ("menu-switch" in start) is bool(links)
    if links:
        page = words(browser.get("/projects/"))
        assert {
            url for url in ("/people/", "/projects/", "/domains/") if f'href="{url}" title' in page
        } == links


@pytest.mark.parametrize("url", ["/people/", "/projects/", "/domains/"])
def test_lists_take_as_many_queries_for_any_number(people: People, browser_of: BrowserOf, url: str) -> None:
    browser = browser_of(people.superadmin)
    browser.get(url)
    with CaptureQueriesContext(connection) as few:
        browser.get(url)
    for _ in range(8):
        make_user(member_of=make_project(make_domain()))
    with CaptureQueriesContext(connection) as many:
        browser.get(url)
    assert len(many) == len(few) <= 15


def test_people_are_searched_narrowed_and_exported(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.domain_admin)
    page = words(browser.get("/people/", {"project": people.project.name}))
    assert people.member.email in page
    assert people.outsider.email not in page
    assert "Nobody matches" in words(browser.get("/people/", {"q": "nobody-has-this"}))
    assert "Nobody here" in words(browser.get("/people/", {"tab": "closed"}))
    lines = b"".join(browser.get("/people/export/", {"role": "superadmin"}))  # type: ignore[arg-type]
    assert people.superadmin.email.encode() in lines
    assert people.member.email.encode() not in lines


def test_the_names_of_other_domains_are_in_no_choice(people: People, browser_of: BrowserOf) -> None:
    for url in ("/people/", "/people/new/", "/projects/"):
        page = words(browser_of(people.domain_admin).get(url))
        assert people.stranger.domain.name not in page


def test_a_domain_admin_adds_a_person_who_signs_in_by_the_link(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.domain_admin)
    form = {"email": "Ada@berth.example", "name": "Ada", "role": "user", "project": people.project.name}
    answer = browser.post("/people/new/", form)
    assert answer.status_code == 201
    path = answer.context["url"].partition("/sign-in/")[2]
    own = Client()
    assert own.post(f"/sign-in/{path}").status_code == 302
    assert own.get("/").status_code == 200
    person = User.objects.get(email="ada@berth.example")
    assert list(person.projects.all()) == [people.project]
    password = {"password1": PASSWORD, "password2": PASSWORD}
    assert own.post("/account/password/set/", password).status_code == 302
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


def test_a_person_with_a_password_is_shown_at_once(people: People, browser_of: BrowserOf) -> None:
    form = {"email": "ada@berth.example", "role": "user", "password": PASSWORD}
    answer = browser_of(people.domain_admin).post("/people/new/", form, follow=True)
    assert "ada@berth.example" in words(answer)
    assert "can sign in now" in words(answer)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"email": ""}, "email"),
        ({"email": "nowhere"}, "email"),
        ({"password": "short"}, "password"),
        ({"role": "superadmin"}, "role"),
        ({"project": "no-such"}, "project"),
    ],
)
def test_a_person_who_cannot_be_added_is_marked_at_the_field(
    people: People, browser_of: BrowserOf, changes: dict[str, str], field: str
) -> None:
    form = {"email": "ada@berth.example", "role": "user", **changes}
    answer = browser_of(people.domain_admin).post("/people/new/", form)
    assert answer.status_code == 422
    assert answer.context["form"].errors[field]
    assert not User.objects.filter(email="ada@berth.example").exists()


def test_a_person_is_changed_and_moved(people: People, browser_of: BrowserOf) -> None:
    browser, person = browser_of(people.superadmin), people.outsider
    form = {"email": person.email, "name": "Grace", "role": "domain_admin", "domain": people.domain.name}
    assert browser.post(f"/people/{person.pk}/", form).status_code == 302
    form["domain"] = people.stranger.domain.name
    assert browser.post(f"/people/{person.pk}/", form).status_code == 302
    person.refresh_from_db()
    assert (person.name, person.role, person.domain) == ("Grace", "domain_admin", people.stranger.domain)


def test_a_move_that_is_refused_says_why_at_the_domain(people: People, browser_of: BrowserOf) -> None:
    person = people.member
    form = {"email": person.email, "role": "user", "domain": people.stranger.domain.name}
    answer = browser_of(people.superadmin).post(f"/people/{person.pk}/", form)
    assert answer.status_code == 422
    assert answer.context["form"].errors["domain"]
    assert browser_of(people.superadmin).post(f"/people/{person.pk}/", {}).status_code == 422


def test_nobody_is_offered_what_they_may_not_do(people: People, browser_of: BrowserOf) -> None:
    page = words(browser_of(people.domain_admin).get(f"/people/{people.superadmin.pk}/"))
    assert "Close the account" not in page
    assert "Save" not in page
    page = words(browser_of(people.domain_admin).get(f"/people/{people.domain_admin.pk}/"))
    assert "Close the account" not in page
    assert 'value="superadmin"' not in page
    page = words(browser_of(people.project_admin).get(f"/people/{people.member.pk}/"))
    assert "Save" not in page


def test_closing_shows_what_is_affected_wants_the_address_and_reports(browser_of: BrowserOf) -> None:
    place = make_place()
    place.run(name="train")
    admin = make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN)
    browser, url = browser_of(admin), f"/people/{place.owner.pk}/"
    page = words(browser.get(f"{url}close/"))
    assert "session “train”" in page
    assert place.project.name in page

    wrong = browser.post(f"{url}close/", {"folders": "keep", "confirm": "x"})
    assert wrong.status_code == 422
    assert "This is not the address" in words(wrong)
    heirless = browser.post(f"{url}close/", {"folders": "hand_over", "confirm": place.owner.email})
    assert heirless.context["form"].errors["heir"]
    unknown = {"folders": "hand_over", "heir": "nobody@berth.example", "confirm": place.owner.email}
    assert browser.post(f"{url}close/", unknown).context["form"].errors["heir"]
    assert browser.post(f"{url}close/", {"folders": "burn"}).status_code == 422
    assert User.objects.get(pk=place.owner.pk).is_active

    answer = browser.post(f"{url}close/", {"folders": "keep", "confirm": place.owner.email}, follow=True)
    assert "Under way" in words(answer)
    assert "Signed out everywhere" in words(answer)
    assert browser.post(f"{url}reopen/").status_code == 302
    assert User.objects.get(pk=place.owner.pk).is_active


def test_a_closed_account_is_purged_when_its_address_is_typed(people: People, browser_of: BrowserOf) -> None:
    browser, url = browser_of(people.domain_admin), f"/people/{people.outsider.pk}/"
    confirm = {"confirm": people.outsider.email}
    assert "is open" in words(browser.post(f"{url}purge/", confirm, follow=True))
    offboarding.close_user(actor=SYSTEM, user_id=people.outsider.pk)
    continue_offboardings()
    assert "Purge" in words(browser.get(url))
    assert "not the address" in words(browser.post(f"{url}purge/", {}, follow=True))
    assert browser.post(f"{url}purge/", confirm)["Location"] == "/people/"
    assert not User.objects.filter(pk=people.outsider.pk).exists()


def test_many_accounts_are_closed_each_by_itself(people: People, browser_of: BrowserOf) -> None:
    browser, url = browser_of(people.domain_admin), "/people/close/"
    assert "Choose the people first" in words(browser.post(url, follow=True))
    form: dict[str, Any] = {"person": [people.member.pk, people.superadmin.pk, people.stranger.pk]}
    assert "close 3" in words(browser.post(url, form))
    assert browser.post(url, {**form, "confirm": "no"}).status_code == 422
    answer = browser.post(url, {**form, "confirm": "close 3"})
    assert answer.context["done_count"] == 1
    assert people.stranger.email not in words(answer)
    assert browser.post(url, {"person": "x"}).status_code == 400
    people.member.refresh_from_db()
    assert not people.member.is_active


def test_a_project_is_made_and_changed(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.domain_admin)
    assert browser.post("/projects/", {"name": "Upper"}).status_code == 422
    assert browser.post("/projects/", {"name": ""}).status_code == 422
    assert browser.post("/projects/", {"name": "vision"}).status_code == 302
    project = Project.objects.get(name="vision")
    url = f"/projects/{project.pk}/"
    assert browser.post(url, {"name": "vision", "title": "Sight"}).status_code == 302
    assert browser.post(url, {"name": people.project.name}).context["form"].errors
    assert browser.post(url, {}).status_code == 422
    assert "Sight" in words(browser.get("/projects/"))


def test_a_project_is_archived_used_again_and_purged(people: People, browser_of: BrowserOf) -> None:
    browser, project = browser_of(people.domain_admin), make_project(people.domain)
    url = f"/projects/{project.pk}/"
    assert "No project is archived" in words(browser.get("/projects/", {"tab": "archived"}))
    browser.post(f"{url}state/", {"to": "archived"})
    assert "Restore" in words(browser.get(url))
    browser.post(f"{url}state/", {"to": "used"})
    assert "in use" in words(browser.post(f"{url}purge/", {"confirm": project.name}, follow=True))
    browser.post(f"{url}state/", {"to": "archived"})
    assert "not the name" in words(browser.post(f"{url}purge/", {}, follow=True))
    browser.post(f"{url}purge/", {"confirm": project.name})
    assert not Project.objects.filter(pk=project.pk).exists()


def test_a_project_with_live_sessions_says_so(browser_of: BrowserOf) -> None:
    place = make_place()
    place.run(name="train")
    admin = make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN)
    answer = browser_of(admin).post(f"/projects/{place.project.pk}/state/", {"to": "archived"}, follow=True)
    assert "“train”" in words(answer)


def test_a_project_admin_manages_members(people: People, browser_of: BrowserOf) -> None:
    browser, url = browser_of(people.project_admin), f"/projects/{people.project.pk}/"
    assert people.project.name in words(browser.get("/projects/"))
    browser.post(f"{url}members/", {"email": people.outsider.email, "role": "admin"})
    assert Membership.objects.get(user=people.outsider).role == "admin"
    nobody = browser.post(f"{url}members/", {"email": "nobody@berth.example", "role": "member"})
    assert nobody.context["member_form"].errors["email"]
    assert browser.post(f"{url}members/", {}).status_code == 422
    assert browser.post(f"{url}members/{people.outsider.pk}/remove/")["Location"] == url
    assert browser.post(f"{url}members/{people.project_admin.pk}/remove/")["Location"] == "/"


def test_domains_are_made_changed_closed_and_purged(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.superadmin)
    assert browser.post("/domains/", {"name": "Upper"}).status_code == 422
    assert browser.post("/domains/", {}).status_code == 422
    assert browser.post("/domains/", {"name": "north"}).status_code == 302
    domain = Domain.objects.get(name="north")
    url = f"/domains/{domain.pk}/"
    assert browser.post(url, {"name": "north", "title": "North"}).status_code == 302
    assert browser.post(url, {}).status_code == 422
    assert browser.post(url, {"name": people.domain.name}).status_code == 422
    assert "North" in words(browser.get("/domains/"))
    assert "not the name" in words(browser.post(f"{url}state/", {"to": "closed"}, follow=True))
    browser.post(f"{url}state/", {"confirm": "north"})
    assert "north" in words(browser.get("/domains/", {"tab": "closed"}))
    assert "Open the domain again" in words(browser.get(url))
    browser.post(f"{url}state/", {"to": "open"})
    assert "is open" in words(browser.post(f"{url}purge/", {"confirm": "north"}, follow=True))
    browser.post(f"{url}state/", {"confirm": "north"})
    assert "not the name" in words(browser.post(f"{url}purge/", {}, follow=True))
    assert browser.post(f"{url}purge/", {"confirm": "north"})["Location"] == "/domains/"


def test_lists_of_nothing_say_so(browser_of: BrowserOf) -> None:
    domain = make_domain()
    admin = make_user(domain=domain, role=Role.DOMAIN_ADMIN)
    browser = browser_of(admin)
    assert "No project yet" in words(browser.get("/projects/"))
    assert "No project matches" in words(browser.get("/projects/", {"q": "x"}))
    superadmin = browser_of(
        service.create_user(
            actor=SYSTEM, email="root@berth.example", password=PASSWORD, domain=domain, role=Role.SUPERADMIN
        )
    )
    assert "No domain is closed" in words(superadmin.get("/domains/", {"tab": "closed"}))
    assert "No domain matches" in words(superadmin.get("/domains/", {"q": "zzz"}))
    project = make_project(domain)
    assert "No members yet" in words(superadmin.get(f"/projects/{project.pk}/"))


@pytest.mark.parametrize(
    ("change", "sentence", "done", "inverse"),
    [
        ("role:domain_monitor", "The role is now: Domain monitor.", 2, "role:user"),
        ("join:{project}", "Is in the project", 3, "leave:{project}"),
        ("policy:{policy}", "The policy is now: tight.", 2, "policy:{usual}"),
    ],
)
def test_many_people_are_changed_with_a_way_back(
    people: People, browser_of: BrowserOf, change: str, sentence: str, done: int, inverse: str
) -> None:
    policy = ResourcePolicy.objects.create(name="tight", domain=people.domain)
    chosen = [make_user(domain=people.domain) for _ in range(2)]
    known = {"project": people.project.pk, "policy": policy.pk, "usual": chosen[0].policy_id}
    browser = browser_of(people.domain_admin)
    asked: dict[str, Any] = {"person": [person.pk for person in chosen] + [people.superadmin.pk]}
    assert "Change 3 people" in words(browser.post("/people/edit/", asked))
    page = words(browser.post("/people/edit/", {**asked, "change": change.format(**known)}))
    assert f"{done} of 3 changed" in page
    assert page.count(sentence) == done
    way_back = inverse.format(**known)
    assert f'value="{way_back}"' in page
    back = words(browser.post("/people/edit/", {"person": asked["person"][:2], "change": way_back}))
    assert "2 of 2 changed" in back
    again = words(browser.post("/people/edit/", {"person": asked["person"][:2], "change": way_back}))
    assert "0 of 2 changed" in again


def test_nothing_is_changed_that_was_not_offered(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.domain_admin)
    for change in ("role:superadmin", "role:monitor", f"join:{make_project().pk}", "policy:0", "x"):
        asked = {"person": people.member.pk, "change": change}
        assert browser.post("/people/edit/", asked).status_code == 422, change
    assert browser.post("/people/edit/", {}).status_code == 302
    gone = words(browser.post("/people/edit/", {"person": 10**9, "change": "role:user"}))
    assert "0 of 1 changed" in gone
    assert (
        browser_of(people.project_admin).post("/people/edit/", {"person": people.member.pk}).status_code
        == 404
    )
