"""Every process of a session gets one signal and the grace period, on a real engine."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerState, ContainerStatus
from agents.runtime.port_async import ProcessSpec
from common.values.resources import ResourceSlots
from portal.ops.engine.session_image import ensure_session_image
from sessions_app.core.container_spec import KernelPlan, build_container_spec
from tests import engines
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

GRACE_S = 10
# A signal that came twice would be counted while it saves. Its shell would say how its `sleep` ended.
PROGRAM = """
exec 2>/dev/null
trap 'told=x$told' TERM
echo up >/proc/1/fd/1
until [ "$told" ]; do sleep 0.1; done
for _ in 1 2 3; do sleep 0.1; done
echo "saved:$told" >/proc/1/fd/1
"""
RUN = 'sh -c "$PROGRAM"'
FORMS = {
    "alone": RUN,
    "after another": f"cd /tmp && {RUN}",
    "at the end of a pipe": f"cat /dev/zero | {RUN}",
    "in a shell of a shell": f"sh -c '{RUN}; true'; true",
    "in a script": 'echo "$PROGRAM" >/tmp/program; sh /tmp/program; echo never',
    "in the background": f"{RUN} & wait",
    "in a session of its own": f"setsid {RUN} & exec sleep infinity",
    "after its group was held": f"trap : TSTP TTIN TTOU; for way in TSTP TTIN TTOU; do kill -$way 0; done; {RUN}",
}
PROCESSES = 32
# It starts a worker whenever there is room for one, also while it saves; workers end at once or with it.
POOL = """
import os, signal, time

def say(word):
    with open("/proc/1/fd/1", "w") as log:
        print(word, file=log)

def fill():
    try:
        while os.fork():
            pass
    except BlockingIOError:
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.close(last)
    os.read(end, 1)
    os._exit(0)

told = []
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: told.append("x"))
end, last = os.pipe()
fill()
say("up")
while not told:
    fill()
until = time.monotonic() + 1
while time.monotonic() < until:
    fill()
say("saved:" + "".join(told))
"""


def start(runtime: DockerRuntime, command: str, **changes: Any) -> str:
    """The container of a session with this command, without its network and home, with these `changes` of its spec."""
    plan = KernelPlan(
        installation=engines.INSTALLATION, session_id=uuid4(), kernel_id=uuid4(), attempt=1, session_name="a",
        project="p", kernel_name="main1", image=engines.TINY_IMAGE, command=command,
        slots=ResourceSlots({"cpu": 500, "mem": 2**26}), shm_bytes=2**20, uid=1000, gid=1000,
        network_pool="10.214.16.0/20", environment={"PROGRAM": PROGRAM, "POOL": POOL},
    )  # fmt: skip
    spec = replace(
        build_container_spec(plan), network="", aliases=(), mounts=(), working_dir="/tmp", **changes
    )
    runtime.ensure_container(spec)
    runtime.start_container(spec.name)
    return spec.name


def await_words(runtime: DockerRuntime, name: str, words: bytes) -> None:
    wait_until(lambda: words in runtime.read_logs(name), deadline_s=20)


def state_of(runtime: DockerRuntime, name: str) -> ContainerState:
    state = runtime.inspect_container(name)
    assert state is not None
    return state


@pytest.mark.parametrize("form", FORMS)
def test_a_program_is_told_once_and_may_save_its_work_whatever_runs_it(
    runtime: DockerRuntime, form: str
) -> None:
    name = start(runtime, FORMS[form])
    await_words(runtime, name, b"up")
    runtime.stop_container(name, GRACE_S)

    assert runtime.read_logs(name) == b"up\nsaved:x\n"
    assert state_of(runtime, name).exit_code != 137
    runtime.remove_container(name)


def test_programs_may_save_their_work_while_no_process_can_be_started(
    runtime: DockerRuntime, tmp_path: Path
) -> None:
    # Its `sh` is dash, which exits when it cannot start a program.
    image = ensure_session_image(print, tmp_path, address=engines.ADDRESS)
    name = start(runtime, 'python3 -c "$POOL"', image=image, pids_limit=PROCESSES)
    await_words(runtime, name, b"up")
    runtime.stop_container(name, GRACE_S)

    assert runtime.read_logs(name) == b"up\nsaved:x\n"
    assert state_of(runtime, name).exit_code != 137
    runtime.remove_container(name)


def test_processes_beside_the_main_one_are_told_and_a_second_worker_tells_nobody_again(
    runtime: DockerRuntime,
) -> None:
    name = start(runtime, "")
    for _ in range(2):
        runtime.start_process(name, ["sh", "-c", PROGRAM])
    await_words(runtime, name, b"up\nup\n")
    with ThreadPoolExecutor() as pool:
        for stop in [pool.submit(runtime.stop_container, name, GRACE_S) for _ in range(3)]:
            stop.result()

    assert runtime.read_logs(name) == b"up\nup\nsaved:x\nsaved:x\n"
    runtime.remove_container(name)


def test_a_shell_at_its_prompt_is_not_waited_for(runtime: DockerRuntime) -> None:
    name = start(runtime, "")

    async def stop() -> float:
        """Seconds."""
        engine = DockerAsyncRuntime(engines.ADDRESS)
        shell = await engine.open_process(name, ProcessSpec())
        shell.write(b"echo re''ady\n")
        seen = b""
        while b"ready" not in seen:
            seen += (await shell.read())[1]
        began = time.monotonic()
        await asyncio.to_thread(runtime.stop_container, name, GRACE_S)
        shell.leave()
        await engine.close()
        return time.monotonic() - began

    assert asyncio.run(stop()) < GRACE_S / 2
    runtime.remove_container(name)


def test_what_does_not_end_is_killed_after_the_grace(runtime: DockerRuntime) -> None:
    name = start(runtime, "trap '' TERM; echo up; sleep 100; sleep 100")
    await_words(runtime, name, b"up")
    runtime.stop_container(name, 1)
    assert state_of(runtime, name).exit_code == 137
    runtime.remove_container(name)


@pytest.mark.parametrize(
    ("command", "exit_code", "log"),
    [
        ("sleep 100 & echo out; exit 7", 7, b"out\n"),
        ("sh -c 'trap \"echo interrupted; exit 3\" INT; kill -INT $$'", 3, b"interrupted\n"),
        ("trap '' TERM; kill 0; echo after; exit 4", 4, b"after\n"),
        ("kill -9 $$", 137, b""),
    ],
    ids=["background", "interrupt", "own group", "killed"],
)
def test_a_command_ends_its_container_with_its_own_exit_code_and_words(
    runtime: DockerRuntime, command: str, exit_code: int, log: bytes
) -> None:
    name = start(runtime, command)
    wait_until(lambda: state_of(runtime, name).status is ContainerStatus.EXITED, deadline_s=20)
    assert (state_of(runtime, name).exit_code, runtime.read_logs(name)) == (exit_code, log)
    runtime.remove_container(name)
