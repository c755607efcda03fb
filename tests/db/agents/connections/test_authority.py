"""Berth's authorities: one for each realm, encrypted keys, renewed before they end."""

from datetime import timedelta

import pytest
from django.test import override_settings

from agents.connections import authority
from agents.models import Authority, Realm
from common import clock
from common.values.encryption import Undecipherable

pytestmark = pytest.mark.django_db


def test_authority_is_made_once_for_each_realm() -> None:
    engines, relays = authority.own_client(Realm.ENGINE), authority.own_client(Realm.RELAY)
    assert authority.own_client(Realm.ENGINE) == engines
    assert engines.authority != relays.authority
    assert authority.issue_client("more", Realm.RELAY).authority == relays.authority


def test_keys_cannot_be_read_from_the_database() -> None:
    made = authority.own_client(Realm.ENGINE)
    row = Authority.objects.get()
    assert "PRIVATE" not in row.key + row.client_key
    assert "PRIVATE" in made.key
    with override_settings(SECRET_KEY="another"), pytest.raises(Undecipherable):
        authority.own_client(Realm.ENGINE)


def test_each_server_has_an_authority_of_its_own() -> None:
    assert authority.issue_server(["a"]).authority != authority.issue_server(["a"]).authority


def test_client_is_renewed_before_it_ends() -> None:
    before = authority.own_client(Realm.ENGINE)
    assert authority.renew_clients() == []
    with clock.frozen_at(before.ends_at - authority.RENEWED_BEFORE + timedelta(hours=1)):
        assert len(authority.renew_clients()) == 1
    after = authority.own_client(Realm.ENGINE)
    assert after.authority == before.authority
    assert after.ends_at > before.ends_at


def test_successor_is_made_before_an_authority_ends() -> None:
    before = authority.own_client(Realm.ENGINE)
    later = clock.now() + authority.AUTHORITY_LIFETIME - authority.SUCCESSOR_BEFORE + timedelta(days=1)
    with clock.frozen_at(later):
        after = authority.own_client(Realm.ENGINE)
        assert authority.trusted_authorities(Realm.ENGINE) == after.authority + before.authority
    assert after.authority != before.authority
