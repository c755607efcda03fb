"""Requests come many times, connections all at once, and owners are shut out in between."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from uuid import uuid4

import pytest

from tests.faults.conftest import World
from tests.faults.engines import IMAGE
from tests.faults.fault import Fault
from tests.faults.portal import SMALL, Client
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

AT_ONCE = 8
STREAMS = 200


def test_same_request_eight_times_at_once(world: World, fault: Fault) -> None:
    """A session was asked for over eight connections at the same moment, with the same Idempotency-Key."""
    body = {"project": "demo", "image": IMAGE, "resources": SMALL, "name": "once"}
    headers = {"Idempotency-Key": uuid4().hex}
    fault.begins()
    with ThreadPoolExecutor(AT_ONCE) as people:
        asked = [
            people.submit(world.client.call, "POST", "sessions/", json=body, headers=headers)
            for _ in range(AT_ONCE)
        ]
    answers = [each.result() for each in asked]
    assert {answer.status_code for answer in answers} == {HTTPStatus.CREATED}, [each.text for each in answers]
    [session_id] = {answer.json()["id"] for answer in answers}
    world.client.wait_for([session_id], "RUNNING")
    fault.recovers("All eight were answered with the same session.")


@pytest.mark.rare
def test_owner_shut_out_during_a_launch(world: World, fault: Fault) -> None:
    """A launch of somebody was held between two steps; meanwhile their project was to be archived and their account was
    closed; then the launch went on."""
    user = Client(world.portal, role="user")
    fault.begins()
    world.portal.hold(["launch.ensure_container"])
    session_id = user.start()
    wait_until(lambda: world.portal.held(), deadline_s=60)
    [project] = [row for row in listed(world, "projects/") if row["name"] == "demo"]
    refused = world.client.call("PATCH", f"projects/{project['id']}/", json={"is_active": False})
    assert refused.status_code == HTTPStatus.CONFLICT, refused.text
    [person] = [row for row in listed(world, "users/?page_size=200") if row["email"] == user.email]
    closed = world.client.call("POST", f"users/{person['id']}/closing/", json={"folders": "keep"})
    assert closed.is_success, closed.text
    world.portal.release()
    decided = ("TERMINATED", "CANCELLED", "ERROR")
    wait_until(lambda: world.observer.session(session_id)["status"] in decided, deadline_s=90)
    row = world.observer.session(session_id)
    fault.recovers(
        f"The project was not archived while it had a session. The session became {row['status']} "
        f"({row['status_reason']})."
    )


@pytest.mark.rare
def test_proxy_of_apps_killed(world: World, fault: Fault) -> None:
    """The web process, which is the proxy of apps, got SIGKILL while an app was open."""
    fault.begins()
    world.portal.kill("web")
    world.connect_app()
    fault.recovers(f"The app was open again after {fault.lasted_s():.1f} s, in the same container.")


@pytest.mark.rare
def test_connections_that_all_come_back_at_once(world: World, fault: Fault) -> None:
    """The web process got SIGKILL while 200 event streams and a websocket of an app were open; all came back at once."""
    fault.begins()
    app_s, streams_s = asyncio.run(come_back(world))
    fault.recovers(f"The app was open again after {app_s:.1f} s, all streams after {streams_s:.1f} s.")


async def come_back(world: World) -> tuple[float, float]:
    """Open streams, kill the web process, and open them again; seconds until the app and the streams were."""
    opened = await asyncio.gather(*(open_stream(world) for _ in range(STREAMS)))
    await asyncio.to_thread(world.portal.kill, "web")
    killed_at = time.monotonic()
    for _reader, writer in opened:
        writer.close()
    app = asyncio.create_task(asyncio.to_thread(connect_app_by, world))
    again = await asyncio.gather(*(open_stream(world) for _ in range(STREAMS)))
    streams_s = time.monotonic() - killed_at
    app_s = await app - killed_at
    for _reader, writer in again:
        writer.close()
    return app_s, streams_s


def connect_app_by(world: World) -> float:
    world.connect_app()
    return time.monotonic()


async def open_stream(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection on which events come; tries until there is one."""
    head = world.client.request_head("GET", "events/", 0)
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", world.portal.port)
            writer.write(head)
            status = await asyncio.wait_for(reader.readline(), 30)
            if b" 200 " in status:
                return reader, writer
            writer.close()
        except (OSError, TimeoutError):
            pass
        await asyncio.sleep(0.2)


def listed(world: World, path: str) -> list[dict[str, str]]:
    return list(world.client.call("GET", path).json()["results"])
