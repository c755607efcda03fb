"""SSH public keys over REST and on their page, and their removal at off-boarding."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.core.roles import Role
from accounts.credentials import keypairs
from accounts.credentials.ssh_keys import MOST_KEYS, add_ssh_key, usable_ssh_keys
from accounts.models import KeyPair, SshKey, User
from accounts.tenancy import offboarding
from accounts.tenancy.service import update_user
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import actor_for, api_client, make_public_key, make_token
from tests.factories_limits import limit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
SSH_KEYS = "/api/v1/ssh-keys/"
HERE = "192.0.2.7"


def private_key() -> str:
    made = Ed25519PrivateKey.generate()
    return made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def with_scopes(user: User, *scopes: str) -> APIClient:
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {make_token(user, scopes=scopes)}")


def test_a_key_is_added_listed_and_removed(people: People) -> None:
    client = api_client(people.member)
    made = client.post(SSH_KEYS, {"public_key": f"{make_public_key()} kim@laptop\n"})
    assert (made.status_code, made.data["name"]) == (201, "kim@laptop")
    assert "laptop" not in made.data["public_key"]
    assert client.get(SSH_KEYS).data["results"] == [made.data]
    assert client.delete(f"{SSH_KEYS}{made.data['id']}/").status_code == 204
    assert not SshKey.objects.exists()
    done = AuditEntry.objects.filter(target_type="accounts.sshkey").values_list("action", flat=True)
    assert sorted(done) == ["accounts.add_ssh_key", "accounts.remove_ssh_key"]


def test_a_key_is_there_once_for_a_person_and_others_may_have_it_too(people: People) -> None:
    key = make_public_key()
    assert api_client(people.member).post(SSH_KEYS, {"public_key": key, "name": "one"}).status_code == 201
    again = api_client(people.member).post(SSH_KEYS, {"public_key": f"{key} other", "name": "two"})
    assert (again.status_code, again.data["message"]) == (409, "You have this key already: “one”.")
    assert api_client(people.outsider).post(SSH_KEYS, {"public_key": key}).status_code == 201


def test_a_private_key_is_refused_and_stands_nowhere(people: People, browser_of: BrowserOf) -> None:
    private = private_key()
    refused = api_client(people.member).post(SSH_KEYS, {"public_key": private})
    assert refused.status_code == 400
    assert "take it as leaked" in refused.data["fields"]["public_key"][0]
    page = browser_of(people.member).post(reverse("ssh-keys"), {"public_key": private, "name": "laptop"})
    assert page.status_code == 400
    secret = private.splitlines()[2]
    assert "take it as leaked" in page.content.decode()
    assert 'value="laptop"' in page.content.decode()
    assert secret not in page.content.decode()
    assert not any(secret in str(entry.changes) for entry in AuditEntry.objects.all())


def test_what_was_typed_wrong_is_still_there(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.member).post(reverse("ssh-keys"), {"public_key": "ssh-ed25519 oops"})
    assert page.status_code == 400
    assert "ssh-ed25519 oops" in page.content.decode()


def test_somebody_has_so_many_keys_and_no_more(people: People) -> None:
    SshKey.objects.bulk_create(
        SshKey(
            user=people.member,
            name=f"k{n}",
            key_type="ssh-ed25519",
            public_key="x",
            fingerprint=f"SHA256:{n}",
        )
        for n in range(MOST_KEYS)
    )
    refused = api_client(people.member).post(SSH_KEYS, {"public_key": make_public_key()})
    assert (refused.status_code, refused.data["code"]) == (422, "limit_exceeded")


@pytest.mark.parametrize("scopes", [("admin",), ("sessions", "admin"), ("sessions", "folders")])
def test_a_key_opens_no_more_than_the_token_that_added_it(people: People, scopes: tuple[str, ...]) -> None:
    answer = with_scopes(people.member, *scopes).post(SSH_KEYS, {"public_key": make_public_key()})
    assert (answer.status_code, answer.data["code"]) == (403, "scope_missing")


def test_a_token_with_a_policy_of_its_own_adds_no_key(people: People) -> None:
    client = api_client(people.member)
    limit(KeyPair.objects.get(user=people.member), max_sessions=1)
    assert client.post(SSH_KEYS, {"public_key": make_public_key()}).status_code == 403


def test_a_key_ends_with_the_token_that_added_it(people: People) -> None:
    client = api_client(people.member)
    end = clock.now() + timedelta(days=3)
    KeyPair.objects.filter(user=people.member).update(expires_at=end)
    client.post(SSH_KEYS, {"public_key": make_public_key()})
    assert usable_ssh_keys(people.member, ip=HERE).count() == 1
    assert usable_ssh_keys(people.member, ip=HERE, at=end).count() == 0


def test_a_key_stays_with_a_token_that_gets_another_secret(people: People) -> None:
    """It is the same token."""
    api_client(people.member).post(SSH_KEYS, {"public_key": make_public_key()})
    token = KeyPair.objects.get(user=people.member)
    keypairs.rotate_keypair(actor=actor_for(people.member), keypair_id=token.pk)
    assert usable_ssh_keys(people.member, ip=HERE).get().keypair == token


@pytest.mark.parametrize("change", ["deleted", "off", "narrowed", "bound", "risen"])
def test_a_key_opens_nothing_once_its_token_would_not(people: People, change: str) -> None:
    client = api_client(people.member)
    client.post(SSH_KEYS, {"public_key": make_public_key()})
    own = add_ssh_key(actor=actor_for(people.member), public_key=make_public_key())
    assert usable_ssh_keys(people.member, ip=HERE).count() == 2
    actor, token = actor_for(people.member), KeyPair.objects.get(user=people.member)
    match change:
        case "deleted":
            keypairs.delete_keypair(actor=actor, keypair_id=token.pk)
        case "off":
            keypairs.update_keypair(actor=actor, keypair_id=token.pk, is_active=False)
        case "narrowed":
            keypairs.update_keypair(actor=actor, keypair_id=token.pk, scopes=["sessions"])
        case "bound":
            limit(token, max_sessions=1)
        case "risen":
            update_user(actor=actor_for(people.superadmin), user_id=people.member.pk, role=Role.DOMAIN_ADMIN)
    assert usable_ssh_keys(people.member, ip=HERE).get() == own


def test_what_is_asked_of_a_person_first_is_asked_of_keys_too(people: People) -> None:
    add_ssh_key(actor=actor_for(people.member), public_key=make_public_key())
    people.member.allowed_networks = ["198.51.100.0/24"]
    assert not usable_ssh_keys(people.member, ip=HERE).exists()
    assert usable_ssh_keys(people.member, ip="198.51.100.1").exists()
    User.objects.filter(pk=people.member.pk).update(must_change_password=True)
    assert not usable_ssh_keys(people.member, ip="198.51.100.1").exists()


def test_nobody_signs_in_with_keys_of_those_who_left(people: People) -> None:
    add_ssh_key(actor=actor_for(people.member), public_key=make_public_key())
    case = offboarding.close_user(actor=SYSTEM, user_id=people.member.pk)
    assert not SshKey.objects.exists()
    assert "SSH keys removed: 1." in [line["sentence"] for line in offboarding.offboarding_report(case)]


def test_a_closed_domain_opens_to_no_key(people: People) -> None:
    add_ssh_key(actor=actor_for(people.member), public_key=make_public_key())
    people.member.domain.is_active = False
    people.member.domain.save(update_fields=["is_active"])
    assert not usable_ssh_keys(people.member, ip=HERE).exists()


def test_an_administrator_removes_the_key_of_somebody(people: People, browser_of: BrowserOf) -> None:
    key = add_ssh_key(actor=actor_for(people.member), public_key=make_public_key(), name="stolen")
    browser = browser_of(people.domain_admin)
    assert "stolen" in browser.get(reverse("person", args=[people.member.pk])).content.decode()
    browser.post(reverse("revoke-ssh-key", args=[people.member.pk, key.pk]))
    assert not SshKey.objects.exists()


def test_the_page_adds_and_removes_without_javascript(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    browser.post(reverse("ssh-keys"), {"public_key": make_public_key(), "name": "<b>laptop</b>"})
    page = browser.get(reverse("ssh-keys")).content.decode()
    assert "&lt;b&gt;laptop" in page
    assert "<b>laptop" not in page
    browser.post(reverse("remove-ssh-key", args=[SshKey.objects.get().pk]))
    assert not SshKey.objects.exists()
