"""Name of the lock under which one worker launches or ends a session."""

from uuid import UUID


def work_lock(session_id: UUID) -> str:
    """Return the name of the lock for work on the session's containers."""
    return f"session:{session_id}"
