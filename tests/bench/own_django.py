"""Set up Django with production settings and a database of this run, before models are imported."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import django
from django.conf import settings
from django.db import ProgrammingError, connection, connections

import tests.servers  # fills the environment
from common.messaging.redis import client as redis_client
from portal.processes.tuning import freeze_startup_objects
from tests.bench.frame import say

os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
django.setup()


@contextlib.contextmanager
def own_database() -> Iterator[dict[str, str]]:
    """Create a database and yield the environment for portal processes on it; drops it at the end.

    May be used repeatedly.
    """
    say("making a database")
    outer = connection.settings_dict["NAME"]
    connection.settings_dict["TEST"]["NAME"] = f"test_{outer}_{tests.servers.TREE}"
    name = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    freeze_startup_objects()  # as every process of a portal does
    try:
        yield {**os.environ, "DATABASE_URL": f"{os.environ['DATABASE_URL'].rpartition('/')[0]}/{name}"}
    finally:
        connections.close_all()
        backend: Any = connection
        backend.close_pool()  # the pool is bound to this database
        settings.DATABASES[connection.alias]["NAME"] = connection.settings_dict["NAME"] = outer
        with connection._nodb_cursor() as cursor:
            try:
                cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            except ProgrammingError:
                # Without FORCE, PostgreSQL ends a running vacuum itself; we may not.
                cursor.execute(f'DROP DATABASE "{name}"')
        redis = redis_client()
        for key in redis.scan_iter(match=f"*{settings.BERTH_INSTALLATION}*"):
            redis.delete(key)
        shutil.rmtree(settings.DATA_DIR, ignore_errors=True)
