"""`manage.py migrate`, one at a time: bin/up may start on several machines at once."""

from typing import Any

from django.core.management.commands.migrate import Command as MigrateCommand

from common.db.advisory_locks import wait_exclusive

MIGRATIONS = "portal.migrations"


class Command(MigrateCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        with wait_exclusive(MIGRATIONS):
            super().handle(*args, **options)
