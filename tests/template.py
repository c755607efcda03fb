"""Make the template database that each test run copies, with all migrations done.

Migrating takes longer than most files of tests, copying takes a moment. The first run makes the
template; a run with other migrations, other pinned packages or another version of this file makes
it again.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import psycopg
from psycopg import sql

from portal.ops.paths import CHECKOUT, content_hash
from tests.servers import LAYOUT, TREE

PREFIX = f"template_berth_{TREE}_"
KEPT_TABLES = ["auth_permission", "django_content_type", "django_migrations"]
# A function in the template, so that PostgreSQL plans these statements once per connection. A
# trigger may write rows while others are deleted, hence the passes.
FORGET_ROWS = """
CREATE FUNCTION tests_forget_rows() RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
    has_found boolean;
BEGIN
    FOR pass IN 1..4 LOOP
        has_found := false;
        {statements}
        IF NOT has_found THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'Rows of a test stay, whatever is deleted.';
END
$function$
"""
FORGET_TABLE = "IF EXISTS (SELECT FROM {table}) THEN DELETE FROM {table}; has_found := true; END IF;"


def ensure_template() -> str:
    """Return the name of the template on this run's server; create it if it is missing."""
    server = os.environ["DATABASE_URL"].rpartition("/")[0]
    migrations = sorted([*CHECKOUT.glob("*/migrations/*.py"), *CHECKOUT.glob("*/migrations/sql/*.sql")])
    name = PREFIX + content_hash([CHECKOUT / "requirements.txt", Path(__file__), *migrations])[:16]
    LAYOUT.data.mkdir(parents=True, exist_ok=True)
    with (
        (LAYOUT.data / "template.lock").open("w") as lock,
        psycopg.connect(f"{server}/postgres", autocommit=True) as connection,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [PREFIX])
        found = {row[0] for row in rows}
        if name not in found:
            for old in found:
                connection.execute(f'DROP DATABASE "{old}" WITH (FORCE)')
            _make(connection, server, name)
    return name


def _make(connection: psycopg.Connection, server: str, name: str) -> None:
    """Create the template under a temporary name, and rename it when it is complete."""
    unfinished = f"{name}_unfinished"
    connection.execute(f'CREATE DATABASE "{unfinished}"')
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--settings=tests.settings", "--verbosity=0"],
        env={**os.environ, "DATABASE_URL": f"{server}/{unfinished}"},
        cwd=CHECKOUT,
        check=True,
    )
    with psycopg.connect(f"{server}/{unfinished}") as there:
        _add_forget_rows(there)
    connection.execute(f'ALTER DATABASE "{unfinished}" RENAME TO "{name}"')


def _add_forget_rows(connection: psycopg.Connection) -> None:
    """Add the function that deletes the rows of all tables except `KEPT_TABLES`."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL(%s) ORDER BY 1",
        [KEPT_TABLES],
    )
    statements = sql.SQL("\n        ").join(
        sql.SQL(FORGET_TABLE).format(table=sql.Identifier(name)) for (name,) in tables
    )
    connection.execute(sql.SQL(FORGET_ROWS).format(statements=statements))
