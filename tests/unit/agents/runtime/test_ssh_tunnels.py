"""Tunnels to engines over SSH while a machine does not answer."""

import asyncio
from pathlib import Path

import pytest

from agents.runtime import ssh_tunnels
from agents.runtime.port import SshMaterial
from agents.runtime.ssh_tunnels import NOT_REACHED, SshFailed, Tunnel

ADDRESS = "ssh://berth@gpu-01"


def test_all_who_wait_for_one_attempt_share_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def scenario() -> list[object]:
        gives_up = asyncio.Event()

        async def connect(*_: object) -> None:
            nonlocal attempts
            attempts += 1
            await gives_up.wait()
            raise SshFailed(NOT_REACHED, address=ADDRESS, error="no answer")

        monkeypatch.setattr(ssh_tunnels, "connect", connect)
        tunnel = Tunnel(ADDRESS, SshMaterial("host key", "key"), Path("unused"))
        waiting = [asyncio.create_task(tunnel._open()) for _ in range(5)]
        await asyncio.sleep(0)
        gives_up.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(end) for end in asyncio.run(scenario())] == [SshFailed] * 5
    assert attempts == 1
