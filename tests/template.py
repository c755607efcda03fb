"""The database that those of test runs are copies of: all migrations are done in it.

To migrate takes longer than most files of tests, to copy takes a moment. The first run makes it, and a run that finds
other migrations or other pinned packages makes it anew.
"""

import fcntl
import os
import subprocess
import sys

import psycopg

from portal.ops.layout import CHECKOUT, content_hash
from tests.servers import LAYOUT, TREE

PREFIX = f"template_berth_{TREE}_"


def ensure_template() -> str:
    """The name of the database, on the server of this run."""
    server = os.environ["DATABASE_URL"].rpartition("/")[0]
    migrations = sorted(CHECKOUT.glob("*/migrations/*.py"))
    name = PREFIX + content_hash([CHECKOUT / "requirements.txt", *migrations])[:16]
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
    """It has its name once it is whole."""
    unfinished = f"{name}_unfinished"
    connection.execute(f'CREATE DATABASE "{unfinished}"')
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--settings=tests.settings", "--verbosity=0"],
        env={**os.environ, "DATABASE_URL": f"{server}/{unfinished}"},
        cwd=CHECKOUT,
        check=True,
    )
    connection.execute(f'ALTER DATABASE "{unfinished}" RENAME TO "{name}"')
