"""Processes of the portal are killed or hang: web, Redis, PostgreSQL, all at once."""

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import docker
import httpx
import psycopg
import pytest
import redis

from tests.faults.conftest import World
from tests.faults.fault import Fault
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

UPLOAD_BYTES = 8 * 2**20
OUTPUT_OF_A_FAILURE = 20_000  # characters of the portal's output that say why


def test_web_killed_during_requests(world: World, fault: Fault) -> None:
    """The web process got SIGKILL while somebody asked for six sessions, one after another, and asked again whenever no
    answer came."""
    sessions: list[str] = []
    asking = threading.Thread(target=lambda: sessions.extend(world.client.start_many(6)), daemon=True)
    fault.begins()
    asking.start()
    wait_until(lambda: world.observer.rows() and len(live_names(world)) >= 3, deadline_s=60)
    world.portal.kill("web")
    asking.join(90)
    assert len(set(sessions)) == 6
    world.client.wait_for(sessions, "RUNNING")
    world.connect_app()
    fault.recovers(
        "Six sessions, none twice. Connections through the process broke with it; the app opened again."
    )


@pytest.mark.rare
def test_web_killed_during_an_upload(world: World, fault: Fault) -> None:
    """The web process got SIGKILL after half of a file of 8 MiB had arrived; then the file was sent again."""
    folder = world.client.call("POST", "folders/", json={"name": "uploads"}).json()["id"]
    path = f"folders/{folder}/files/half"
    head = world.client.request_head("PUT", path, UPLOAD_BYTES)
    fault.begins()
    with socket.create_connection(("127.0.0.1", world.portal.port), timeout=60) as connection:
        connection.sendall(head + bytes(UPLOAD_BYTES // 2))
        world.portal.kill("web")
    world.portal.wait_for("web")
    wait_until(lambda: answers(world, path, HTTPStatus.NOT_FOUND), deadline_s=90, interval_s=0.2)
    headers = {"Content-Type": "application/octet-stream"}
    sent = world.client.call("PUT", path, content=bytes(UPLOAD_BYTES), headers=headers)
    assert sent.is_success, sent.text
    assert len(world.client.call("GET", path).content) == UPLOAD_BYTES
    world.connect_app()
    fault.recovers("Nothing of the half file was to be seen; the second time it was whole.")


@pytest.mark.rare
def test_redis_flushed_during_launches(world: World, fault: Fault) -> None:
    """FLUSHALL, again and again, while eight sessions were launched: tasks, locks and news are lost."""
    broker = redis.Redis.from_url(world.portal.redis_url)
    fault.begins()
    sessions = []
    for _ in range(8):
        sessions.append(world.client.start())
        broker.flushall()
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers("All eight ran: the reconciler asks for lost work again.")


@pytest.mark.rare
def test_redis_killed_during_launches(world: World, fault: Fault) -> None:
    """SIGKILL for Redis while four sessions were launched."""
    fault.begins()
    sessions = world.client.start_many(4)
    world.portal.kill("redis")
    sessions += world.client.start_many(2)
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers("All ran; the app noticed nothing.")


@pytest.mark.rare
def test_redis_hung(world: World, fault: Fault) -> None:
    """SIGSTOP for Redis; meanwhile pages were opened and a session was asked for."""
    fault.begins()
    world.portal.hang("redis")
    assert [world.page(path) for path in ("/", "/sessions/", "/data/")] == [HTTPStatus.OK] * 3
    session_id = world.client.start()
    with world.pages() as pages:
        wait_until(lambda: pages.asked >= 10, deadline_s=60)
    assert pages.faults == []
    world.portal.go_on()
    world.client.wait_for([session_id], "RUNNING")
    world.demand_app()
    fault.recovers("Pages and apps went on without it, the session was taken, and ran once Redis was back.")


def test_postgresql_killed_during_launches(world: World, fault: Fault) -> None:
    """SIGKILL for PostgreSQL, with all its children, while four sessions were launched."""
    fault.begins()
    sessions = world.client.start_many(4)
    world.portal.kill("postgres")
    sessions += world.client.start_many(2)
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers("It replayed its log; nothing that had been answered was lost.")


@pytest.mark.rare
def test_postgresql_stalled_during_launches(world: World, fault: Fault) -> None:
    """SIGSTOP for PostgreSQL, with all its children, while four sessions were launched; then it went on."""
    fault.begins()
    sessions = world.client.start_many(4)
    world.portal.hang("postgres")
    with (
        ThreadPoolExecutor() as people
    ):  # at once: an open app goes on for half a minute without the database
        program = people.submit(world.client.call, "GET", "sessions/")
        page = people.submit(world.page, "/sessions/")
    answer = program.result()
    told = world.portal.output[-OUTPUT_OF_A_FAILURE:]
    assert (answer.status_code, answer.json()["code"]) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "database_lost",
    ), told
    assert page.result() == HTTPStatus.SERVICE_UNAVAILABLE
    world.demand_app()
    world.portal.go_on()
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers(
        "Requests were refused in words (503) within seconds; the open app went on; all ran afterwards."
    )


@pytest.mark.rare
def test_postgresql_out_of_connections(world: World, fault: Fault) -> None:
    """Somebody else took all connections of PostgreSQL, those of the portal too, while four sessions were launched, and let
    go of them after the portal had refused a request."""
    fault.begins()
    sessions = world.client.start_many(4)
    with all_connections_of(world.portal.database_url):
        answer = wait_until(lambda: refusal(world, "sessions/"), deadline_s=60)
        assert answer is not None
        assert answer.json()["code"] == "database_lost"
        assert world.page("/sessions/") == HTTPStatus.SERVICE_UNAVAILABLE
    world.client.wait_for(sessions, "RUNNING")
    fault.recovers("Requests were refused in words (503); all ran once there were connections again.")


@pytest.mark.rare
def test_postgresql_restored_from_a_backup(world: World, fault: Fault) -> None:
    """The files of PostgreSQL were copied while two sessions ran. Afterwards one of them was stopped and another started;
    then the portal was stopped, the copy put back, and the portal started."""
    kept, stopped = world.client.start_running(2)
    data = world.portal.database_files
    backup = data.with_name("postgres-backup")
    world.portal.stop()
    copy_files(data, backup)
    world.portal.start()
    world.client.stop([stopped])
    world.client.wait_for([stopped], "TERMINATED")
    [newer] = world.client.start_running()

    fault.begins()
    world.portal.stop()
    shutil.rmtree(data)
    backup.rename(data)
    world.portal.start()
    world.client.wait_for([stopped], "ERROR", "TERMINATED")
    assert world.observer.session(stopped)["status_reason"] == "container_lost"
    assert world.client.session(kept)["status"] == "RUNNING"
    wait_until(lambda: "reconcile.unknown" in world.portal.output, deadline_s=60)
    with world.first.client() as client:  # the administrator decides
        [row] = client.containers(filters={"label": [f"io.berth.session={newer}"]})
        client.remove_container(row["Id"], force=True)
        remove_leftovers(client, newer)
    world.connect_app()
    fault.recovers(
        "The session that ran on is as it was; that of which no container was left ended and says so; the container that "
        "the database did not know was reported and left alone."
    )


@pytest.mark.rare
def test_redis_out_of_memory(world: World, fault: Fault) -> None:
    """Redis refused every write for lack of memory while four sessions were asked for and pages were opened."""
    broker = redis.Redis.from_url(world.portal.redis_url)
    fault.begins()
    broker.config_set("maxmemory", "1mb")
    try:
        sessions = world.client.start_many(4)
        assert [world.page(path) for path in ("/", "/sessions/")] == [HTTPStatus.OK] * 2
    finally:
        broker.config_set("maxmemory", "0")
    world.client.wait_for(sessions, "RUNNING")
    world.demand_app()
    fault.recovers("Pages and requests went on without it; all ran once it had memory.")


def test_everything_killed_during_ten_launches(world: World, fault: Fault) -> None:
    """SIGKILL for the supervisor, and with it for web, workers, beat, PostgreSQL and Redis, in the middle of ten
    launches; then bin/up."""
    fault.begins()
    sessions = world.client.start_many(10)
    world.portal.kill_supervisor()
    world.portal.start()
    world.client.wait_for(sessions, "RUNNING")
    world.connect_app()
    fault.recovers("All ten ran, each once; the session that ran before ran on, and its app opened again.")


@contextmanager
def all_connections_of(database_url: str) -> Iterator[None]:
    """End those of everybody else, and take all that there are."""
    taken: list[psycopg.Connection] = []  # type: ignore[type-arg]
    end_others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user AND pid <> ALL(%s)"
    try:
        first = psycopg.connect(database_url, autocommit=True)
        taken.append(first)
        for _ in range(5):
            with suppress(psycopg.OperationalError):
                while True:
                    taken.append(psycopg.connect(database_url))
            first.execute(end_others, [[each.info.backend_pid for each in taken]])
        yield
    finally:
        for connection in taken:
            connection.close()


def refusal(world: World, path: str) -> httpx.Response | None:
    answer = world.client.call("GET", path)
    assert answer.status_code in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE), answer.text
    return answer if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE else None


def copy_files(source: Path, target: Path) -> None:
    """With owners and rights."""
    subprocess.run(["cp", "-a", source, target], check=True)


def remove_leftovers(client: docker.APIClient, session_id: str) -> None:
    """Networks and volumes of a session."""
    filters = {"label": [f"io.berth.session={session_id}"]}
    for network in client.networks(filters=filters):
        client.remove_network(network["Id"])
    for volume in client.volumes(filters=filters)["Volumes"] or []:
        client.remove_volume(volume["Name"])


def live_names(world: World) -> list[str]:
    rows = world.observer.rows()
    return [
        row["name"]
        for row in rows
        if row["status"] in ("PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING")
    ]


def answers(world: World, path: str, status: HTTPStatus) -> bool:
    try:
        return world.client.call("GET", path).status_code == status
    except httpx.HTTPError:
        return False
