"""A session on a remote machine is used as one on the portal's own: by command, terminal and notebook."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from agents.machines.network_isolation import RENEWED_EVERY, renew_isolation
from agents.models import Agent, AgentRelay, RelayRoute
from agents.relays.containers import reconcile_relays
from agents.runtime.port import HelperSpec
from agents.runtime.registry import close_async_runtimes
from agents.selectors import runtime_of
from common import clock
from portal.ops.cluster.layout import ClusterMachine
from portal.ops.cluster.network import inside
from portal.ops.cluster.shell import run
from portal.ops.engine.image_recipe import read_recipe
from sessions_app.models import ComputeSession
from tests import engines
from tests.client.conftest import Command, berth, command, empty_home, portal_url
from tests.factories_sessions import Place
from tests.waiting import wait_until
from tests.ws.stage import PORTAL_HOST, Browser, gateway, signed_in

__all__ = ("berth", "command", "empty_home", "portal_url")
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("empty_redis"),
    pytest.mark.docker,
    pytest.mark.wide,  # copies the session image to two machines
    pytest.mark.timeout(300),
]
SIZE = 5 * 2**20
in_thread = sync_to_async


def test_commands_and_copies_work_on_a_remote_machine(place: Place, berth: Command, tmp_path: Path) -> None:
    session = place.run(name="far", resources={"cpu": 0.5, "mem": "256m"})
    assert session.status == "RUNNING", session.status_message
    done = berth("exec", "far", "--", "sh", "-c", "hostname; echo told >/proc/1/fd/1; exit 7")
    assert (done.code, done.out) == (7, "main1\n"), done.err
    wait_until(lambda: "told" in berth("logs", "far").out)
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(SIZE))
    assert berth("cp", str(sent), "far:/home/work/copy").code == 0
    assert berth("cp", "far:/home/work/copy", str(back)).code == 0
    assert back.read_bytes() == sent.read_bytes()
    place.end(session)


async def test_terminal_and_notebook_work_and_go_on_when_the_port_of_the_relay_is_closed(
    place: Place, two_machines: list[ClusterMachine]
) -> None:
    session, machine = await in_thread(run_notebook)(place, two_machines)
    host = f"jupyter-{session.host_label}.{settings.BERTH_APPS_DOMAIN}:8080"
    async with gateway() as browser:
        await signed_in(browser, place.owner)
        await use_terminal(browser, session)
        await open_app(browser, host)
        assert await calculate(browser, host) == "42"
        rule = ("INPUT", "-p", "tcp", "--dport", str(settings.BERTH_RELAY_PORT), "-j", "DROP")
        await in_thread(run)(*inside(machine), "iptables", "-w", "-I", *rule)
        await check_relays(place, session, RelayRoute.TUNNEL)
        await open_app(browser, host)
        assert await calculate(browser, host) == "42"
        await use_terminal(browser, session)
        await in_thread(run)(*inside(machine), "iptables", "-w", "-D", *rule)
        await check_relays(place, session, RelayRoute.RELAY)
        await open_app(browser, host)
        assert await calculate(browser, host) == "42"
    await close_async_runtimes()
    await in_thread(place.end)(session)


def run_notebook(place: Place, two_machines: list[ClusterMachine]) -> tuple[ComputeSession, ClusterMachine]:
    place.image.apps = read_recipe().settings["apps"]
    place.image.save()
    reconcile_relays([place.image.digest])
    session = place.run(resources={"cpu": 1, "mem": "1g"})
    assert session.status == "RUNNING", session.status_message
    address = session.kernels.get().placed_agent.address
    return session, next(machine for machine in two_machines if machine.url == address)


async def check_relays(place: Place, session: ComputeSession, expected: RelayRoute) -> None:
    def check() -> str:
        reconcile_relays([place.image.digest])
        return AgentRelay.objects.get(agent__kernels__session=session).route

    assert await in_thread(check)() == expected


async def use_terminal(browser: Browser, session: ComputeSession) -> None:
    socket = await browser.websocket(PORTAL_HOST, f"/ws/sessions/{session.pk}/terminal/")
    await socket.send_bytes(b"echo $((6 * 7))done\n")
    seen = b""
    while b"42done" not in seen:
        data = (await socket.receive(timeout=20)).data
        assert isinstance(data, bytes), data
        seen += data
    await socket.close()


async def open_app(browser: Browser, host: str) -> None:
    """Open it until the page that waits for it is over."""
    async with asyncio.timeout(60):
        while '"version"' not in (answer := await browser.visit(host, "/api")).text:
            assert answer.status < 500 or answer.status in (502, 503), answer
            await asyncio.sleep(0.2)


async def calculate(browser: Browser, host: str) -> str:
    """Return what a new notebook kernel prints for 6 * 7."""
    own = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    made = await browser.request("POST", host, "/api/kernels", headers=own, json={})
    assert made.status == 201, made
    kernel = json.loads(made.text)["id"]
    async with browser.websocket(host, f"/api/kernels/{kernel}/channels") as socket:
        await socket.send_json(execute_request("print(6 * 7)"))
        while True:
            message = json.loads((await socket.receive(timeout=30)).data)
            if message["msg_type"] == "stream":
                return str(message["content"]["text"]).strip()


def execute_request(code: str) -> dict[str, Any]:
    head = {"msg_id": uuid4().hex, "msg_type": "execute_request", "username": "", "session": uuid4().hex}
    content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    return {
        "header": {**head, "version": "5.3"},
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
    }


def test_walls_that_were_removed_by_hand_are_back_within_their_interval(
    place: Place, two_machines: list[ClusterMachine]
) -> None:
    renew_isolation()
    agent = Agent.objects.get(address=two_machines[0].url)
    assert has_walls(agent, place)
    on_machine(agent, place, "nft", "delete", "table", "inet", "berth")
    assert not has_walls(agent, place)
    with clock.frozen_at(clock.now() + RENEWED_EVERY):
        renew_isolation()
    assert has_walls(agent, place)


def has_walls(agent: Agent, place: Place) -> bool:
    return "table inet berth\n" in on_machine(agent, place, "nft", "list", "tables")


def on_machine(agent: Agent, place: Place, *command: str) -> str:
    spec = HelperSpec(
        name=f"berth-test-{uuid4().hex[:12]}",
        image=place.image.digest,
        labels=engines.LABELS,
        command=command,
        capabilities=("NET_ADMIN",),
        has_network=True,
    )
    return runtime_of(agent).run_helper(spec).output.decode()
