"""Migrate by the single migrations that squashed ones replace, as older installations did.

python -m tests.replaced_migrations [APP.NAME...]    # to these; by default to the newest
"""

import sys

import django
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


def replaced_migrations(connection: BaseDatabaseWrapper) -> MigrationExecutor:
    """Return an executor that knows no squashed migrations, only those that they replace."""
    executor = MigrationExecutor(connection)
    loader = executor.loader = MigrationLoader(connection, replace_migrations=False)
    for key, migration in loader.replacements.items():
        loader.graph.remove_replacement_node(key, migration.replaces)
    return executor


def main(names: list[str]) -> None:
    executor = replaced_migrations(connection)
    targets = [(app, name) for app, _, name in (each.partition(".") for each in names)]
    executor.migrate(targets or executor.loader.graph.leaf_nodes())


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1:])
