"""Use of the database by requests that stream for long: they keep no connection between two uses,
because connections are few.
"""

from collections.abc import Callable
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

Result = TypeVar("Result")


def release_connection() -> None:
    """Close the connection of this thread, unless it is in a transaction, as it is in tests."""
    if not connection.in_atomic_block:
        connection.close()


async def in_own_thread(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, which runs in the thread of the request and may use the database;
    no connection is kept afterwards.
    """

    def run() -> Result:
        try:
            return work()
        finally:
            release_connection()

    return await sync_to_async(run)()
