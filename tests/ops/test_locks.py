"""Locks of an installation, and the message for a process that waits."""

import os
import threading
from pathlib import Path

from portal.ops.locks import directory_lock, setup_lock
from tests.waiting import wait_until


def test_waiting_for_a_set_up_names_the_holder(tmp_path: Path) -> None:
    room = tmp_path / "portal" / "ops"
    room.mkdir(parents=True)
    said: list[str] = []

    def set_up() -> None:
        with setup_lock(tmp_path, said.append):
            said.append("done")

    waiting = threading.Thread(target=set_up, daemon=True)
    with directory_lock(room):
        waiting.start()
        wait_until(lambda: said)
        assert f"process {os.getpid()}" in said[0]
    waiting.join(10)
    assert said[1:] == ["done"]
