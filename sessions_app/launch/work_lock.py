"""Name of the lock under which one worker launches or ends a session."""

from uuid import UUID


def work_lock(session_id: UUID) -> str:
    """The subject of the lock that whoever works on this session's containers holds."""
    return f"session:{session_id}"
