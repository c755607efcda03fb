"""Settings of identity providers, and the errors of wrong ones."""

from pathlib import Path

import pytest

from accounts.core.identity_providers import (
    InvalidSetting,
    OnboardingRules,
    UnknownUser,
    read_directory,
    read_oidc_providers,
)

RIGHT = {
    "BERTH_OIDC": "harbour",
    "BERTH_OIDC_HARBOUR_ISSUER": "https://id.example",
    "BERTH_OIDC_HARBOUR_CLIENT_ID": "berth",
    "BERTH_OIDC_HARBOUR_SECRET_FILE": "/secret",
    "BERTH_OIDC_HARBOUR_TRUSTS": "Uni.example lab.example",
}


def read(path: str) -> str:
    return " a secret\n" if path == "/secret" else ""


def test_a_provider_is_read_with_the_usual_rest() -> None:
    (its,) = read_oidc_providers(RIGHT, read)
    assert (its.name, its.secret, its.groups_claim) == ("Harbour", "a secret", "groups")
    assert its.onboarding == OnboardingRules(trusts=("uni.example", "lab.example"))
    assert its.onboarding.unknown is UnknownUser.REFUSE


def test_settings_without_providers_are_valid() -> None:
    assert read_oidc_providers({}) == ()


def test_people_whom_it_makes_known_and_groups() -> None:
    more = {
        "UNKNOWN": "create",
        "DOMAIN": "uni",
        "PROJECTS": "a b",
        "GROUPS": "staff one: a , b;old:c;",
        "TRUSTS": "*",
    }
    (its,) = read_oidc_providers(
        {**RIGHT, **{f"BERTH_OIDC_HARBOUR_{name}": text for name, text in more.items()}}, read
    )
    onboarding = its.onboarding
    assert (onboarding.unknown, onboarding.domain, onboarding.projects) == (
        UnknownUser.CREATE,
        "uni",
        ("a", "b"),
    )
    assert onboarding.groups == {"staff one": ("a", "b"), "old": ("c",)}
    assert onboarding.projects_of_groups(frozenset({"staff one", "else"})) == {"a", "b"}
    assert onboarding.mapped_projects == {"a", "b", "c"}
    assert onboarding.vouches_for("anybody@anywhere.example")


def test_a_provider_vouches_for_its_own_addresses_alone() -> None:
    onboarding = OnboardingRules(trusts=("uni.example",))
    assert onboarding.vouches_for("Ada@UNI.example")
    assert not onboarding.vouches_for("ada@evil-uni.example")
    assert not onboarding.vouches_for("nowhere")
    assert onboarding.projects_of_groups(frozenset({"staff"})) == frozenset()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("BERTH_OIDC", "Not-a-name"),
        ("BERTH_OIDC_HARBOUR_ISSUER", "http://id.example"),
        ("BERTH_OIDC_HARBOUR_ISSUER", "ftp://localhost"),
        ("BERTH_OIDC_HARBOUR_ISSUER", "id.example"),
        ("BERTH_OIDC_HARBOUR_CLIENT_ID", ""),
        ("BERTH_OIDC_HARBOUR_SECRET_FILE", "/empty"),
        ("BERTH_OIDC_HARBOUR_TRUSTS", ""),
        ("BERTH_OIDC_HARBOUR_TRUSTS", "* uni.example"),
        ("BERTH_OIDC_HARBOUR_UNKNOWN", "maybe"),
        ("BERTH_OIDC_HARBOUR_GROUPS", "staff"),
        ("BERTH_OIDC_HARBOUR_GROUPS", "staff:"),
        ("BERTH_OIDC_HARBOUR_GROUPS", ":a"),
    ],
)
def test_what_is_wrong_is_named(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        read_oidc_providers({**RIGHT, name: text}, read)


def test_new_people_need_a_domain() -> None:
    with pytest.raises(InvalidSetting, match="BERTH_OIDC_HARBOUR_DOMAIN"):
        read_oidc_providers({**RIGHT, "BERTH_OIDC_HARBOUR_UNKNOWN": "create"}, read)


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    wanted = {**RIGHT, "BERTH_OIDC_HARBOUR_SECRET_FILE": str(tmp_path / "absent")}
    with pytest.raises(InvalidSetting, match="SECRET_FILE"):
        read_oidc_providers(wanted)
    (tmp_path / "absent").write_text("s")
    assert read_oidc_providers({**wanted, "BERTH_OIDC_HARBOUR_ISSUER": "http://localhost:1"})[0].secret == "s"


DIRECTORY = {
    "BERTH_LDAP_URL": "ldaps://ldap.example",
    "BERTH_LDAP_BIND_DN": "cn=berth,dc=example",
    "BERTH_LDAP_SECRET_FILE": "/secret",
    "BERTH_LDAP_BASE": "dc=example",
    "BERTH_LDAP_TRUSTS": "uni.example",
}


@pytest.mark.parametrize(
    ("url", "starts_tls"),
    [("ldaps://ldap.example", False), ("ldap://ldap.example", True), ("ldap://127.0.0.1:389", False)],
)
def test_no_password_goes_to_another_machine_without_tls(url: str, starts_tls: bool) -> None:
    directory = read_directory({**DIRECTORY, "BERTH_LDAP_URL": url}, read)
    assert directory is not None
    assert (directory.starts_tls, directory.filter) == (starts_tls, "(mail={login})")


def test_without_an_address_there_is_no_directory() -> None:
    assert read_directory({}, read) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("BERTH_LDAP_URL", "https://ldap.example"),
        ("BERTH_LDAP_URL", "ldaps:"),
        ("BERTH_LDAP_FILTER", "(mail=*)"),
        ("BERTH_LDAP_FILTER", "mail={login}"),
        ("BERTH_LDAP_FILTER", "(mail={login}"),
        ("BERTH_LDAP_BASE", ""),
        ("BERTH_LDAP_TRUSTS", ""),
    ],
)
def test_what_is_wrong_with_a_directory_is_named(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        read_directory({**DIRECTORY, name: text}, read)


def test_an_authority_of_the_directory_is_a_file_with_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("-----BEGIN CERTIFICATE-----")
    given = {**DIRECTORY, "BERTH_LDAP_SECRET_FILE": str(path), "BERTH_LDAP_CA_FILE": str(path)}
    found = read_directory(given)
    assert found is not None
    assert found.ca_file == str(path)
    path.write_text("a letter")
    with pytest.raises(InvalidSetting, match="BERTH_LDAP_CA_FILE"):
        read_directory(given)
