"""Required actions before any page: a new password, allowed networks."""

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.logins.service import Login, valid_logins
from accounts.models import KeyPair, User
from accounts.sign_in import admin_control
from accounts.tenancy.service import update_user
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import PASSWORD, actor_for, api_client
from tests.web.accounts.test_second_factor import browser_of

pytestmark = pytest.mark.django_db
NEW = "another quiet harbour"


def control(people: People, user: User, **wish: str) -> int:
    answer = browser_of(people.domain_admin).post(f"/people/{user.pk}/sign-in/", wish)
    user.refresh_from_db()
    return answer.status_code


def change_password(browser: Client, new: str) -> str:
    asked = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    return browser.post("/account/password/change/", asked).content.decode()


def test_a_new_password_ends_every_other_login_and_not_this_one(people: People) -> None:
    here, there = browser_of(people.member), browser_of(people.member)
    change_password(here, NEW)
    assert here.get("/profile/").status_code == 200
    assert there.get("/profile/").status_code == 302
    assert people.member.browser_logins.count() == 1


def test_required_password_change_blocks_everything_else(people: People) -> None:
    browser, program = browser_of(people.member), api_client(people.member)
    login = Login(user_id=people.member.pk, session_key=browser.session.session_key or "")
    assert control(people, people.member, must_change_password="on") == 302
    assert browser.get("/sessions/")["Location"] == "/account/password/change/"
    for answer in (browser.get("/api/v1/me/"), program.get("/api/v1/me/")):
        assert (answer.status_code, answer.json()["code"]) == (403, "password_change_required")
    assert not valid_logins([login])

    assert "Choose another one" in change_password(browser, PASSWORD)
    change_password(browser, NEW)
    assert browser.get("/sessions/").status_code == program.get("/api/v1/me/").status_code == 200
    assert AuditEntry.objects.filter(action="accounts.control_sign_in").count() == 1


def test_an_account_is_used_from_its_networks_alone(people: People) -> None:
    browser, program = browser_of(people.member), api_client(people.member)
    key = browser.session.session_key or ""
    control(people, people.member, allowed_networks="192.0.2.0/24, 2001:db8::/32")
    assert people.member.allowed_networks == ["192.0.2.0/24", "2001:db8::/32"]
    for client in (browser, program):
        assert client.get("/api/v1/me/").status_code == 403
        assert client.get("/api/v1/me/", REMOTE_ADDR="192.0.2.7").status_code == 200
    assert "may not be used from 127.0.0.1" in browser.get("/profile/").content.decode()
    near, far = (Login(user_id=people.member.pk, session_key=key, ip=ip) for ip in ("192.0.2.7", "127.0.0.1"))
    assert set(valid_logins([near, far])) == {near}


def test_the_right_password_from_elsewhere_opens_nothing(people: People) -> None:
    control(people, people.member, allowed_networks="192.0.2.0/24")
    asked = {"login": people.member.email, "password": PASSWORD}
    refused, let_in = Client(), Client(REMOTE_ADDR="192.0.2.7")
    assert refused.post("/account/login/", asked).status_code == 403
    assert not refused.session.get("_auth_user_id")
    assert (
        AuditEntry.objects.get(action="accounts.sign_in", reason="address_not_allowed").target_label
        == people.member.email
    )
    assert let_in.post("/account/login/", asked).status_code == 302
    assert let_in.get("/profile/").status_code == 200


@pytest.mark.parametrize("text", ["harbour", "10.0.0.0/99", "\n".join(f"10.0.{n}.0/24" for n in range(51))])
def test_what_is_no_list_of_networks_is_refused(people: People, text: str) -> None:
    control(people, people.member, allowed_networks=text)
    assert people.member.allowed_networks == []


def test_admin_cannot_lock_out_themselves(people: People) -> None:
    control(people, people.domain_admin, allowed_networks="192.0.2.0/24")
    assert people.domain_admin.allowed_networks == []
    control(people, people.domain_admin, allowed_networks="127.0.0.0/8")
    assert people.domain_admin.allowed_networks == ["127.0.0.0/8"]


def test_members_restrict_nobody(people: People) -> None:
    answer = browser_of(people.member).post(
        f"/people/{people.outsider.pk}/sign-in/", {"must_change_password": "on"}
    )
    assert answer.status_code == 404


def test_tokens_of_before_do_not_rise_with_their_person(people: People) -> None:
    program = api_client(people.member)
    update_user(actor=SYSTEM, user_id=people.member.pk, role=Role.DOMAIN_ADMIN)
    assert program.get("/api/v1/me/").status_code == 401
    assert not KeyPair.objects.filter(user=people.member).exists()
    later = api_client(User.objects.get(pk=people.member.pk))
    update_user(actor=SYSTEM, user_id=people.member.pk, role=Role.USER)
    assert later.get("/api/v1/me/").status_code == 200


def test_where_superadmins_sign_in_from_is_not_shown_to_admins(people: People) -> None:
    browser = Client(REMOTE_ADDR="198.51.100.9")
    browser.post("/account/login/", {"login": people.superadmin.email, "password": "wrong"})
    browser.post("/account/login/", {"login": people.superadmin.email, "password": PASSWORD})
    assert "198.51.100.9" not in browser_of(people.domain_admin).get("/audit/").content.decode()
    assert "198.51.100.9" in browser_of(people.superadmin).get("/audit/").content.decode()


def test_password_change_cannot_be_required_without_local_password(people: People) -> None:
    people.member.set_unusable_password()
    people.member.save()
    control(people, people.member, must_change_password="on")
    assert not people.member.must_change_password


def test_an_administrator_does_not_lift_networks_that_others_set_on_them(people: People) -> None:
    own, superadmin = people.domain_admin, actor_for(people.superadmin)
    bound = ["127.0.0.0/8"]
    admin_control.update_sign_in(actor=superadmin, user_id=own.pk, allowed_networks=bound)
    assert control(people, own, allowed_networks="") == 403
    assert own.allowed_networks == bound
    admin_control.update_sign_in(actor=superadmin, user_id=own.pk, allowed_networks=[])
