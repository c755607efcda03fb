"""Squashed migrations make the same database as the migrations that they replace."""

import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from agents.models import ResourceGroup
from portal.ops.paths import CHECKOUT
from scheduler.models import SchedulerState
from tests.catalog import describe
from tests.replaced_migrations import replaced_migrations
from tests.template import ensure_template

# Each squashed migration replaces some that are applied here and some that are not.
MIDDLE = (
    "common.0002_answers",
    "portal.0002_notification_choices",
    "scheduler.0003_kept_ticks",
    "sessions_app.0030_designated_agents",
    "vfolders.0002_limit_ledger",
)
ROWS = {
    "applied": "SELECT app, name FROM django_migrations",
    "content types": "SELECT app_label, model FROM django_content_type",
    "permissions": """
        SELECT app_label, model, codename, name
        FROM auth_permission JOIN django_content_type AS type ON type.id = content_type_id
    """,
    "policies": "SELECT to_jsonb(policy) - 'created_at' FROM accounts_resourcepolicy AS policy",
}
SERVER = os.environ["DATABASE_URL"].rpartition("/")[0]


class Database:
    """A database of this test run's server."""

    def __init__(self, name: str) -> None:
        self._url = f"{SERVER}/{name}"

    def migrate(self, *command: str) -> str:
        """Run a Python module that migrates; return what it prints."""
        return subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, "DATABASE_URL": self._url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
            cwd=CHECKOUT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def query(self, query: str) -> set[str]:
        with psycopg.connect(self._url) as connection:
            return {str(row) for row in connection.execute(query)}  # type: ignore[arg-type]

    def execute(self, statement: str) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def describe(self) -> set[tuple[str, ...]]:
        with psycopg.connect(self._url) as connection:
            return describe(connection)


@pytest.fixture
def databases() -> Iterator[tuple[Database, Database]]:
    """Return an empty database and a copy of the template, which squashed migrations made."""
    names = [f"test_berth_{os.getpid()}_{part}" for part in ("replaced", "squashed")]
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as server:
        try:
            server.execute(f'CREATE DATABASE "{names[0]}"')
            server.execute(f'CREATE DATABASE "{names[1]}" TEMPLATE "{ensure_template()}"')
            yield Database(names[0]), Database(names[1])
        finally:
            for name in names:
                server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.mark.timeout(600)
def test_both_ways_lead_to_the_same_database(databases: tuple[Database, Database]) -> None:
    replaced, squashed = databases
    squashed.execute("DROP FUNCTION tests_forget_rows()")
    replaced.migrate("tests.replaced_migrations", *MIDDLE)
    applied = replaced.query(ROWS["applied"])
    for key, migration in MigrationLoader(None).replacements.items():
        assert {str(each) in applied for each in migration.replaces} == {True, False}, key

    replaced.migrate("django", "migrate", "--verbosity=0")
    assert replaced.describe() ^ squashed.describe() == set()
    for query in ROWS.values():
        assert replaced.query(query) == squashed.query(query)

    # As an installation is that has applied all of them before there were squashed ones.
    replaced.execute("DELETE FROM django_migrations WHERE name LIKE '%\\_squashed\\_%'")
    assert "No migrations to apply" in replaced.migrate("django", "migrate")
    assert replaced.query(ROWS["applied"]) == squashed.query(ROWS["applied"])


def test_groups_that_are_older_than_the_scheduler_keep_their_run_state(db: None) -> None:
    group = ResourceGroup.objects.create(name="older")
    SchedulerState.objects.create(group=group, epoch=7, last_agent_id=3)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # else its table could not be altered
    replaced_migrations(connection).migrate([("scheduler", None)])
    executor = MigrationExecutor(connection)
    assert ("scheduler", "0001_shares") not in executor.loader.graph.nodes
    executor.migrate(executor.loader.graph.leaf_nodes())
    assert SchedulerState.objects.filter(group=group, epoch=7, last_agent_id=3).exists()
