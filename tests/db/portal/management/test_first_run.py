"""Initial data of an empty installation."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from accounts.core.roles import Role
from accounts.models import KeyPair, Membership, Project, User
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def first_run(file: Path, **options: object) -> None:
    call_command("first_run", json=file, no_agent=True, **options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "first-run.json"


def test_the_first_run_makes_one_person_of_each_role_who_can_sign_in_and_start_sessions(file: Path) -> None:
    first_run(file)
    content = json.loads(file.read_text())
    assert content["url"] == "http://localhost:8080"
    assert [row["role"] for row in content["users"]] == ["superadmin", "domain_admin", "user"]
    for row in content["users"]:
        user = User.objects.get(email=row["email"], role=row["role"])
        assert user.check_password(row["password"])
        assert KeyPair.objects.get(user=user).access_key == row["token"].split(".")[0]
        assert Membership.objects.filter(user=user, project=Project.objects.get(name="demo")).exists()


def test_the_file_is_for_its_owner_alone(file: Path) -> None:
    first_run(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_second_run_keeps_people_and_file(file: Path) -> None:
    first_run(file)
    before, people = file.read_text(), list(User.objects.values())
    first_run(file)
    assert file.read_text() == before
    assert list(User.objects.values()) == people


def test_a_second_run_at_another_address_changes_only_the_address(file: Path, settings) -> None:  # type: ignore[no-untyped-def]
    first_run(file)
    before = json.loads(file.read_text())
    settings.BERTH_URL = "http://localhost:9999"
    first_run(file)
    assert json.loads(file.read_text()) == {**before, "url": "http://localhost:9999"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_demo_there_is_the_superadmin_alone(file: Path) -> None:
    first_run(file, no_demo=True)
    assert [row["role"] for row in json.loads(file.read_text())["users"]] == ["superadmin"]
    assert User.objects.get().role == Role.SUPERADMIN
    assert Membership.objects.count() == 1


def test_a_file_that_is_gone_does_not_change_passwords(file: Path) -> None:
    first_run(file)
    before = list(User.objects.values_list("password", flat=True))
    file.unlink()
    first_run(file)
    assert list(User.objects.values_list("password", flat=True)) == before
    assert not file.exists()


def test_a_file_that_cannot_be_written_leaves_no_people(file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        first_run(file.parent / "absent" / "file.json")
    assert not User.objects.exists()


def test_an_installation_with_people_gets_no_further_ones(file: Path) -> None:
    make_user()
    first_run(file)
    assert User.objects.count() == 1


@pytest.mark.docker
def test_this_machine_becomes_the_first_agent_once(file: Path) -> None:
    from agents.models import Agent

    for _ in range(2):
        call_command("first_run", json=file)
    agent = Agent.objects.get()
    assert agent.resource_group.is_default
    assert {slot.slot_name for slot in agent.slots.all()} >= {"cpu", "mem"}


@pytest.mark.docker
def test_an_image_that_is_not_there_is_refused_by_name(file: Path) -> None:
    with pytest.raises(CommandError, match="berth/none:0"):
        call_command("first_run", json=file, image="berth/none:0")
