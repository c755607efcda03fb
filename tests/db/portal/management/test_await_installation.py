"""A portal that joins others waits for what they set up, and refuses what only they can reach."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from accounts.models import User
from agents.models import Agent
from portal.management.commands.await_installation import why_not_ready
from tests.factories_scheduler import make_cluster
from vfolders.services import ensure_default_host, mark_storage

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def data(tmp_path: Path, settings: object) -> Path:
    settings.DATA_DIR = tmp_path  # type: ignore[attr-defined]
    return tmp_path


def test_it_waits_for_migrations_and_the_first_account() -> None:
    assert "Nobody has an account" in why_not_ready()
    make_cluster()
    assert User.objects.exists()
    assert why_not_ready() == ""
    last = MigrationRecorder.Migration.objects.filter(app="scheduler").order_by("pk").last()
    assert last
    last.delete()
    assert "not migrated yet" in why_not_ready()


def test_it_refuses_a_database_that_is_newer() -> None:
    MigrationRecorder(connection).record_applied("scheduler", "9999_of_a_later_version")
    with pytest.raises(CommandError, match=r"newer version .* scheduler\.9999_of_a_later_version"):
        call_command("await_installation")


def test_it_refuses_an_engine_behind_a_socket_that_is_not_here() -> None:
    agent = make_cluster().add_agent({"cpu": 1000, "mem": 2**30})
    Agent.objects.filter(pk=agent.pk).update(address="unix:///of/another/machine.sock")
    with pytest.raises(CommandError, match=rf"“{agent.name}” is reached by unix:///of/another/machine.sock"):
        call_command("await_installation")


def test_it_refuses_folders_that_are_not_those_of_the_others(data: Path, settings: object) -> None:
    make_cluster()
    ensure_default_host()
    mark_storage()
    call_command("await_installation")
    settings.DATA_DIR = data / "elsewhere"  # type: ignore[attr-defined]
    (data / "elsewhere" / "folders").mkdir(parents=True)
    with pytest.raises(CommandError, match="Folders of the storage host “local” are not at folders"):
        call_command("await_installation")
