"""Profiles are readable by their owner only, and a token is sent to its portal only."""

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth import InvalidInput, NotSignedIn
from berth.profiles import (
    Profile,
    ProfileFile,
    choose_profile,
    profile_path,
    read_profiles,
    write_profiles,
)

WORK = Profile("work", "https://work.test", "bk1.secret")
HOME = Profile("home", "https://home.test", "bk2.secret", "/etc/ca.pem")
SAVED = ProfileFile().with_profile(HOME).with_profile(WORK)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_nobody_is_signed_in_at_first() -> None:
    with pytest.raises(NotSignedIn) as caught:
        choose_profile(environment={})
    assert "berth login" in caught.value.hint


def test_the_file_is_for_its_owner_alone() -> None:
    path = write_profiles(SAVED)
    assert path == profile_path()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    write_profiles(SAVED.without_profile("home"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(SAVED)


@given(name=TEXT, url=TEXT, token=TEXT)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_read(name: str, url: str, token: str) -> None:
    saved = ProfileFile().with_profile(Profile(name, url, token))
    write_profiles(saved)
    assert read_profiles() == saved
    tomllib.loads(profile_path().read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", ["not toml", "profiles = 1", "[profiles.a]\nurl = 'x'", "[profiles]\na = 1"])
def test_a_file_that_cannot_be_understood_is_named(text: str) -> None:
    path = write_profiles(SAVED)
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"config\.toml"):
        choose_profile(environment={})


def test_the_named_profile_comes_before_the_environment_and_that_before_the_current_one() -> None:
    write_profiles(SAVED)
    environment = {"BERTH_URL": "https://ci.test", "BERTH_TOKEN": "bk3.secret"}
    assert choose_profile("home", environment) == HOME
    assert choose_profile("", environment) == Profile("", "https://ci.test", "bk3.secret")
    assert choose_profile("", {"BERTH_PROFILE": "home"}) == HOME
    assert choose_profile("", {}) == WORK
    with pytest.raises(NotSignedIn, match="home, work"):
        choose_profile("absent", {})


def test_a_saved_token_goes_to_its_own_portal_alone() -> None:
    write_profiles(SAVED)
    assert choose_profile("", {"BERTH_URL": "https://HOME.test/"}) == HOME
    with pytest.raises(NotSignedIn, match="elsewhere"):
        choose_profile("", {"BERTH_URL": "https://elsewhere.test"})


def test_a_token_from_the_environment_goes_to_the_current_portal() -> None:
    write_profiles(SAVED)
    assert choose_profile("", {"BERTH_TOKEN": "other"}) == Profile("work", "https://work.test", "other")


def test_an_authority_of_ones_own_is_added(tmp_path: Path) -> None:
    write_profiles(SAVED)
    assert choose_profile("", {"BERTH_CA_FILE": "/x.pem"}).ca_file == "/x.pem"


def test_forgetting_the_current_profile_leaves_another() -> None:
    assert SAVED.without_profile("work").current == "home"
    assert SAVED.without_profile("work").without_profile("home") == ProfileFile()
