"""What somebody else does at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connections


def elsewhere(job: Callable[[], object]) -> None:
    """Done to its end in a connection of its own. Raises what it raises."""

    def run() -> None:
        try:
            job()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()
