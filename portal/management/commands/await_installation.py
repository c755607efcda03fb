"""`manage.py await_installation`: waits until the installation that this portal joins is set up, and
refuses if this machine cannot be part of it. Runs at each start of `bin/up --role web|worker`.
"""

import time
from typing import Any

import redis
from django.core.management import BaseCommand, CommandError
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader

from accounts.models import User
from agents.connections.service import remove_old_connection_files
from agents.models import Agent
from agents.runtime.addresses import UNIX
from agents.runtime.port import RuntimeFault
from agents.selectors import runtime_of
from common.messaging.redis import client
from vfolders.models import StorageHost
from vfolders.services import is_marked

ASKED_EVERY_S = 1.0


class Command(BaseCommand):
    help = "Wait for the database, its migrations and Redis; check what this machine must share with others."

    def handle(self, *args: Any, **options: Any) -> None:
        said = ""
        while reason := why_not_ready():
            if reason != said:
                self.stdout.write(f"Waiting. {reason}")
            said = reason
            time.sleep(ASKED_EVERY_S)
        check_engines()
        check_storage()
        remove_old_connection_files()


def why_not_ready() -> str:
    """Return why the installation is not ready for this portal yet; "" if it is. Raises CommandError
    if it never will be.
    """
    try:
        loader = MigrationLoader(connection)
        check_version(loader)
        if set(loader.graph.leaf_nodes()) - set(loader.applied_migrations):
            return "The database is not migrated yet. The portal with --role all does it at its start."
        if not User.objects.exists():
            return "Nobody has an account yet. The portal with --role all makes the first at its start."
    except OperationalError as error:
        return f"The database at DATABASE_URL does not answer: {last_line(error)}"
    try:
        client().ping()
    except redis.RedisError as error:
        return f"Redis at REDIS_URL does not answer: {last_line(error)}"
    return ""


def check_version(loader: MigrationLoader) -> None:
    """Raise CommandError if the database has migrations that this checkout does not know."""
    known = {*loader.disk_migrations}
    for migration in loader.disk_migrations.values():
        known.update(migration.replaces)
    newer = [key for key in loader.applied_migrations if key not in known and key[0] in loader.migrated_apps]
    if newer:
        app, name = newer[0]
        raise CommandError(
            f"The database is of a newer version than this checkout, which does not know {app}.{name}. "
            "Update this checkout to the version of the portal with --role all."
        )


def check_engines() -> None:
    """Raise CommandError if an agent is reached by a socket that leads to another engine here, or to none."""
    for agent in Agent.objects.in_use().filter(address__startswith=UNIX).order_by("name"):
        try:
            engine_id = runtime_of(agent).info().engine_id
        except RuntimeFault:
            engine_id = ""
        if engine_id != agent.engine_id:
            raise CommandError(
                f"The machine “{agent.name}” is reached by {agent.address}, which on this machine leads elsewhere. "
                f"Give it an address that all portals reach: berth agent add {agent.name} tcp://HOST:2376"
            )


def check_storage() -> None:
    """Raise CommandError if folders of a storage host are not here."""
    for host in StorageHost.objects.filter(is_active=True).order_by("name"):
        if not is_marked(host):
            root = host.config.get("root", "")
            raise CommandError(
                f"Folders of the storage host “{host.name}” are not at {root} of this data directory. Mount there the "
                "file system that the portal with --role all has there."
            )


def last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[-1]
