"""Programs, files and orphaned processes on a real engine."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.conf import settings

from agents.models import Agent
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import MountSpec
from agents.runtime.port_async import ProcessSpec
from agents.runtime.registry import close_async_runtimes, runtime_for
from sessions_app.gateway.processes.process_reaper import ProcessLease, ProcessOwners
from tests import engines, factories
from tests.engines import ADDRESS, make_tiny_image, remove_everything, tiny_spec
from tests.waiting import wait_until
from tests.ws.stage import Browser, Stage, gateway, set_stage

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]
in_thread = sync_to_async
PATIENCE_S = 60
HOME = "/home/work"


@pytest.fixture(scope="module", autouse=True)
def tiny_image() -> Iterator[None]:
    make_tiny_image()
    yield
    remove_everything()


@pytest.fixture
def stage(transactional_db: None) -> Iterator[Stage]:
    """A running session whose container is real, with a home of its own and a scratch in memory."""
    stage = set_stage()
    stage.run()
    kernel = stage.session.kernels.get()
    Agent.objects.filter(pk=kernel.agent_id).update(address=ADDRESS)
    runtime = runtime_for(ADDRESS)
    home = f"berth-test-{uuid4().hex[:12]}"
    runtime.ensure_volume(home, engines.LABELS)
    mounts = (
        MountSpec("volume", HOME, home, owner=(1000, 1000)),
        MountSpec("tmpfs", "/scratch", size_bytes=2**20),
    )
    runtime.ensure_container(tiny_spec(kernel.container_name, mounts=mounts, working_dir=HOME))
    runtime.start_container(kernel.container_name)
    yield stage
    runtime.remove_container(kernel.container_name)
    runtime.remove_volume(home)


@pytest.fixture
def container(stage: Stage) -> str:
    return stage.session.kernels.get().container_name


@pytest_asyncio.fixture
async def browser(stage: Stage) -> AsyncIterator[Browser]:
    async with gateway() as browser:
        yield browser
    await close_async_runtimes()


@pytest.fixture
def authorization(stage: Stage) -> dict[str, str]:
    return {"Authorization": f"Bearer {factories.make_token(stage.owner)}"}


def inside(container: str, script: str) -> str:
    return runtime_for(ADDRESS).run_process(container, ("sh", "-c", script)).output.decode()


def is_running(container: str, words: str) -> bool:
    return words in inside(container, "ps -o args")


def exec_socket(
    browser: Browser, stage: Stage, headers: dict[str, str]
) -> aiohttp.client._WSRequestContextManager:
    address = f"http://127.0.0.1:{browser.port}/api/v1/sessions/{stage.session.pk}/exec/"
    return browser.http.ws_connect(address, headers=headers, max_msg_size=2**24)


async def told(socket: aiohttp.ClientWebSocketResponse) -> tuple[bytes, bytes, dict[str, object]]:
    """stdout, stderr and the last message."""
    said = {1: bytearray(), 2: bytearray()}
    while True:
        message = await socket.receive(timeout=PATIENCE_S)
        if message.type is aiohttp.WSMsgType.BINARY:
            said[message.data[0]] += message.data[1:]
        elif not {"started", "ack"} & set(last := message.json()):
            return bytes(said[1]), bytes(said[2]), last


# Programs


async def test_a_program_gets_what_was_asked_and_its_streams_stay_apart(
    browser: Browser, stage: Stage, authorization: dict[str, str]
) -> None:
    script = 'echo "$0 $COLOUR $(pwd) $(id -u)"; echo trouble >&2; cat; exit 5'
    async with exec_socket(browser, stage, authorization) as socket:
        argv = ["sh", "-c", script, "a b;c"]
        await socket.send_json({"argv": argv, "env": {"COLOUR": "teal"}, "cwd": "/tmp"})
        await socket.send_bytes(b"\0one\n")
        await socket.send_bytes(b"\0")
        assert await told(socket) == (b"a b;c teal /tmp 1000\none\n", b"trouble\n", {"exit_code": 5})


async def test_much_input_and_output_pass_whole(
    browser: Browser, stage: Stage, authorization: dict[str, str]
) -> None:
    size, block = 12 * 2**20, 2**16
    async with exec_socket(browser, stage, authorization) as socket:
        await socket.send_json({"argv": ["cat"]})
        taken, sent, got, ack = asyncio.Event(), 0, 0, 0

        async def feed() -> None:
            nonlocal sent
            while sent < size:
                while sent - ack + block > 2**20:
                    taken.clear()
                    await taken.wait()
                sent += block
                await socket.send_bytes(b"\0" + bytes(block))
            await socket.send_bytes(b"\0")

        feeding = asyncio.create_task(feed())
        last: dict[str, object] = {}
        while "exit_code" not in last:
            message = await socket.receive(timeout=PATIENCE_S)
            if message.type is aiohttp.WSMsgType.BINARY:
                got += len(message.data) - 1
            elif "ack" in (last := message.json()):
                ack += last["ack"]  # type: ignore[operator]
                taken.set()
        await feeding
        assert (got, last) == (size, {"exit_code": 0})


@pytest.mark.parametrize("has_terminal", [True, False])
async def test_signals_arrive_and_a_cut_process_is_gone_with_its_children(
    browser: Browser, stage: Stage, authorization: dict[str, str], container: str, has_terminal: bool
) -> None:
    number = 4000 + has_terminal
    async with exec_socket(browser, stage, authorization) as socket:
        await socket.send_json({"argv": ["sleep", "4567"], "tty": has_terminal})
        await socket.receive(timeout=PATIENCE_S)
        await socket.send_json({"signal": "TERM"})
        assert (await told(socket))[2] == {"exit_code": 143}

    stubborn = f"trap '' HUP TERM; echo up; while :; do sleep {number}; done"
    socket = await exec_socket(browser, stage, authorization)
    await socket.send_json({"argv": ["sh", "-c", stubborn], "tty": has_terminal})
    while (message := await socket.receive(timeout=PATIENCE_S)).type is not aiohttp.WSMsgType.BINARY:
        assert message.type is aiohttp.WSMsgType.TEXT
    socket._response.connection.transport.abort()
    # What has a terminal loses its shell; without one its whole group goes.
    gone = "trap" if has_terminal else f"sleep {number}"
    await asyncio.to_thread(wait_until, lambda: not is_running(container, gone), deadline_s=PATIENCE_S)


async def test_a_client_that_never_reads_holds_back_the_process_and_not_our_memory(
    browser: Browser, stage: Stage, authorization: dict[str, str], container: str
) -> None:
    def written() -> int:
        return int(inside(container, "grep wchar /proc/$(pidof yes)/io").split()[1])

    async with exec_socket(browser, stage, authorization) as socket:
        await socket.send_json({"argv": ["yes"]})
        socket._response.connection.transport.pause_reading()
        await asyncio.to_thread(wait_until, lambda: is_running(container, "yes"), deadline_s=PATIENCE_S)
        before, last = resident_mib(), -1
        while (now := await asyncio.to_thread(written)) != last:
            last = now
            await asyncio.sleep(0.2)
        assert resident_mib() - before < 20
        socket._response.connection.transport.abort()
    await asyncio.to_thread(wait_until, lambda: not is_running(container, "yes"), deadline_s=PATIENCE_S)


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# What a web process left


def program(script: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


KEEPS = """
import asyncio, sys
import django
django.setup()
from pathlib import Path
from agents.runtime.port_async import ProcessSpec
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from sessions_app.gateway.processes.process_reaper import ProcessLease

async def main(address, container, directory):
    lease = ProcessLease(Path(directory))
    runtime = DockerAsyncRuntime(address)
    for has_terminal in (True, False):
        argv = ("sh", "-c", "trap '' HUP; while :; do sleep 7654; done")
        await runtime.open_process(
            container, ProcessSpec(argv=argv, has_terminal=has_terminal, owner=f"{lease.name}.1.")
        )
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_killed_web_process_left_is_ended_and_the_rest_stays(
    stage: Stage, container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "BERTH_INSTALLATION", engines.INSTALLATION)
    other = program(KEEPS, ADDRESS, container, str(tmp_path))
    runtime = DockerAsyncRuntime(ADDRESS)
    try:
        assert other.stdout is not None
        assert await asyncio.to_thread(other.stdout.readline) == "ready\n"
        mine = await runtime.open_process(container, ProcessSpec(argv=("sleep", "7777"), owner="mine.1."))
        keepers = ProcessOwners(tmp_path)

        await keepers.sweep()
        assert is_running(container, "sleep 7654")  # its web process lives

        other.send_signal(signal.SIGKILL)
        await asyncio.to_thread(other.wait)
        assert len(keepers.lease.expired_leases()) == 1
        await keepers.sweep()
        await asyncio.to_thread(wait_until, lambda: not is_running(container, "trap"), deadline_s=PATIENCE_S)
        assert is_running(container, "sleep 7777")
        assert not keepers.lease.expired_leases()
        await mine.close()
        await keepers.stop()
        assert not os.listdir(tmp_path)
    finally:
        other.kill()
        other.wait()
        await runtime.close()
        await close_async_runtimes()


def test_a_life_is_over_when_its_process_is(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from sessions_app.gateway.processes.process_reaper import ProcessLease; import time\n"
        "lease = ProcessLease(Path(sys.argv[1])); print(lease.name, flush=True); time.sleep(600)"
    )
    ours = ProcessLease(tmp_path)
    other = program(f"import django; django.setup(); {script}", str(tmp_path))
    try:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        assert ours.expired_leases() == []
        other.kill()
        other.wait()
        assert [path.name for path in ours.expired_leases()] == [name]
    finally:
        other.kill()
        other.wait()
    ours.end()


# Files


def files_url(browser: Browser, stage: Stage, kind: str = "") -> str:
    return f"http://127.0.0.1:{browser.port}/api/v1/sessions/{stage.session.pk}/files/{kind}"


async def test_a_file_goes_in_and_comes_out_whole(
    browser: Browser, stage: Stage, authorization: dict[str, str], container: str
) -> None:
    content = os.urandom(3 * 2**20)
    where = {"path": f"{HOME}/new/größe; x"}
    url = files_url(browser, stage, "content/")
    async with browser.http.put(
        url, data=content, params=where | {"mode": "0750"}, headers=authorization
    ) as put:
        made = await put.json()
        assert put.status == 200, made
    assert (made["type"], made["size_bytes"], made["mode"]) == ("file", len(content), "0750")
    async with browser.http.get(url, params=where, headers=authorization) as get:
        assert get.status == 200
        assert await get.read() == content
    shown = await in_thread(inside)(container, f"cd {HOME}/new; stat -c '%u %g %a' *; ls -A {HOME}")
    assert shown == "1000 1000 750\nnew\n"


async def test_directories_are_listed_packed_and_merged(
    browser: Browser, stage: Stage, authorization: dict[str, str], container: str
) -> None:
    script = f"cd {HOME}; mkdir -p a/b; echo old >a/x; echo kept >a/b/kept; ln -s a link; touch .hidden"
    await in_thread(inside)(container, script)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (("x", b"new\n"), ("b/y", b"more\n")):
            info = tarfile.TarInfo(name)
            info.size, info.uid = len(content), 0
            archive.addfile(info, io.BytesIO(content))
    where = {"path": f"{HOME}/link"}
    url = files_url(browser, stage, "archive/")
    async with browser.http.put(url, data=buffer.getvalue(), params=where, headers=authorization) as put:
        assert await put.json() == {"path": f"{HOME}/link", "entries": 2, "size_bytes": 9}
    async with browser.http.get(url, params=where, headers=authorization) as get:
        with tarfile.open(fileobj=io.BytesIO(await get.read())) as got:
            found = {m.name: got.extractfile(m).read() for m in got if m.isfile()}  # type: ignore[union-attr]
    assert found == {"x": b"new\n", "b/kept": b"kept\n", "b/y": b"more\n"}
    async with browser.http.get(
        files_url(browser, stage), params={"path": HOME}, headers=authorization
    ) as get:
        listed = await get.json()
    kinds = [(entry["name"], entry["type"]) for entry in listed["entries"]]
    assert kinds == [(".hidden", "file"), ("a", "directory"), ("link", "symlink")]
    assert listed["is_complete"]


REFUSED = (
    ("GET", "", "/nothing", 404),
    ("GET", "", "/bin/busybox", 409),
    ("GET", "stat/", f"{HOME}/nothing", 404),
    ("GET", "stat/", "relative", 400),
    ("GET", "content/", "/locked/secret", 404),
    ("GET", "content/", HOME, 409),
    ("GET", "content/", f"{HOME}/closed", 403),
    ("GET", "archive/", "/bin/busybox", 409),
    ("GET", "archive/", "/", 409),
    ("PUT", "content/", "/etc/passwd", 403),
    ("PUT", "content/", f"{HOME}/out/passwd", 403),
    ("PUT", "content/", f"{HOME}/directory", 409),
    ("PUT", "content/", f"{HOME}/", 400),
    ("PUT", "content/", "/proc/self/mem", 400),
    ("PUT", "content/", "/scratch/full", 409),
    ("PUT", "archive/", "/bin", 403),
    ("PUT", "archive/", f"{HOME}/fresh", 400),
)


async def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    browser: Browser, stage: Stage, authorization: dict[str, str], container: str
) -> None:
    made = f"cd {HOME}; ln -s /etc out; mkdir directory; echo x >closed; chmod 200 closed"
    await in_thread(inside)(container, made)
    answers = []
    for method, kind, path, _ in REFUSED:
        content = bytes(2 * 2**20) if "full" in path else b"this is no archive" * 100
        more = {"params": {"path": path}, "headers": authorization}
        async with browser.http.request(
            method, files_url(browser, stage, kind), data=content if method == "PUT" else None, **more
        ) as answer:
            assert set(await answer.json()) == {"code", "message", "hint", "fields"}
            answers.append((method, kind, path, answer.status))
    assert tuple(answers) == REFUSED
    left = await in_thread(inside)(container, f"find {HOME} /scratch -name '.berth*'")
    assert not left


async def test_slow_reader_does_not_block_others(
    browser: Browser, stage: Stage, authorization: dict[str, str], container: str
) -> None:
    await in_thread(inside)(container, f"head -c 64000000 /dev/zero >{HOME}/big")
    for kind, path in (("content/", f"{HOME}/big"), ("archive/", HOME)):
        async with browser.http.get(
            files_url(browser, stage, kind), params={"path": path}, headers=authorization
        ) as slow:
            await slow.content.readexactly(1000)
            assert await in_thread(inside)(container, "echo alive") == "alive\n"
    gone = lambda: not is_running(container, "cat --") and not is_running(container, "tar -C")  # noqa: E731
    await asyncio.to_thread(wait_until, gone, deadline_s=PATIENCE_S)


def test_the_engine_is_asked_by_nobody_else(container: str) -> None:
    """The port alone: a directory of many names is cut, and said to be."""

    async def listed() -> tuple[int, bool]:
        runtime = DockerAsyncRuntime(ADDRESS)
        try:
            entries, is_complete = await runtime.files(container).list_directory(HOME, 50)
            return len(entries), is_complete
        finally:
            await runtime.close()

    inside(container, f"cd {HOME}; for n in $(seq 60); do : >f$n; done")
    assert asyncio.run(listed()) == (50, False)
    assert DockerRuntime(ADDRESS).inspect_container(container) is not None
