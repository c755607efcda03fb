"""Run a function in another database connection, as a concurrent process would."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connections


def elsewhere(job: Callable[[], object]) -> None:
    """Run `job` to its end in a thread with its own connection. Raises the errors of `job`."""

    def run() -> None:
        try:
            job()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()
