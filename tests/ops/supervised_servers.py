"""Runs the embedded servers of one data directory under a supervisor until it is told to end.

python -m tests.ops.supervised_servers DATA       # prints "ready DATABASE_URL REDIS_URL DATABASE_URL_BY_SOCKET"
"""

import asyncio
import os
import sys
from pathlib import Path

from portal.ops.console import write
from portal.ops.paths import CHECKOUT, Layout
from portal.ops.processes import marker_environment, stop_leftovers
from portal.ops.services.postgres import EmbeddedPostgres
from portal.ops.services.redis import EmbeddedRedis
from portal.ops.services.supervisor import Supervisor
from portal.ops.setup.env_file import parse_server_address, read_env, updated, write_env
from portal.ops.setup.service_account import prepare_server_directories


async def serve(layout: Layout) -> None:
    stop_leftovers(layout.data)
    values = updated(read_env(layout.env_file), host="127.0.0.1", port=8080)
    write_env(layout.env_file, values)
    environment = {**os.environ, **marker_environment(layout.data)}
    directories = prepare_server_directories(
        layout, values["BERTH_INSTALLATION"], outside=layout.data.parent.parent / "quarters"
    )
    supervisor = Supervisor()
    postgres = EmbeddedPostgres(directories, parse_server_address(values["DATABASE_URL"]), environment)
    redis = EmbeddedRedis(directories, parse_server_address(values["REDIS_URL"]), environment)
    for server in (postgres, redis):
        server.prepare()
        await supervisor.start(server.service())
    urls = values["DATABASE_URL"], values["REDIS_URL"], postgres.socket_url(values["DATABASE_URL"])
    write(f"ready {' '.join(urls)}\n")
    try:
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await supervisor.stop()


if __name__ == "__main__":
    asyncio.run(serve(Layout(checkout=CHECKOUT, data=Path(sys.argv[1]))))
