"""Dotfiles and a start-up script in a container of a real engine: written, run, failing, hanging."""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from agents.runtime.docker.sync_runtime import DockerRuntime
from common.values.resources import ResourceSlots
from sessions_app.core.container_spec import KernelPlan, build_container_spec, home_volume_name
from sessions_app.core.home_setup import MARK, SETUP, STATUS, HomeFile, Progress, build_archive, read_progress
from tests import engines
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]
PATIENCE_S = 60


@pytest.fixture
def start(runtime: DockerRuntime) -> Callable[..., str]:
    """Starts a container as a launch does, on an image that is not written to; its name."""

    def begin(*files: HomeFile, script: str, command: str = "", seconds: int = 30) -> str:
        plan = KernelPlan(
            installation=engines.INSTALLATION,
            session_id=uuid4(),
            kernel_id=uuid4(),
            attempt=1,
            session_name="setups",
            project="test",
            kernel_name="main1",
            image=engines.TINY_IMAGE,
            command=command,
            slots=ResourceSlots({"cpu": 500, "mem": 64 * 2**20}),
            shm_bytes=2**20,
            uid=1000,
            gid=1000,
            network_pool="10.214.0.0/20",
            has_readonly_root=True,
            has_setup=True,
        )
        runtime.ensure_volume(home_volume_name(plan.kernel_id), engines.LABELS)
        spec = replace(build_container_spec(plan), network="none", aliases=())
        runtime.ensure_container(spec)
        runtime.put_archive(
            spec.name, SETUP, build_archive(files, script, seconds=seconds, owner=(1000, 1000))
        )
        runtime.start_container(spec.name)
        return spec.name

    return begin


def progress_of(runtime: DockerRuntime, name: str) -> Progress:
    return read_progress(runtime.run_process(name, ("cat", STATUS)).output)


def is_over(runtime: DockerRuntime, name: str) -> bool:
    return progress_of(runtime, name).exit_code is not None


def test_a_session_begins_with_files_and_what_the_script_did(
    runtime: DockerRuntime, start: Callable[..., str]
) -> None:
    file = HomeFile(".config/greeting", "0640", "hello\n")
    name = start(file, script='id -u; cat "$HOME/.config/greeting" >"$HOME/made"')
    wait_until(lambda: is_over(runtime, name), deadline_s=PATIENCE_S)
    assert progress_of(runtime, name).exit_code == 0
    seen = runtime.run_process(name, ("sh", "-c", "cat made; stat -c '%a %u' .config/greeting")).output
    assert seen == b"hello\n640 1000\n"
    assert runtime.read_logs(name) == b"1000\n"


def test_a_command_follows_a_script_that_fails(runtime: DockerRuntime, start: Callable[..., str]) -> None:
    name = start(script="echo before; exit 7", command="echo the command")
    wait_until(lambda: runtime.inspect_container(name).exit_code == 0, deadline_s=PATIENCE_S)  # type: ignore[union-attr]
    lines = runtime.read_logs(name).decode().splitlines()
    assert lines[0] == "before"
    assert lines[1].startswith(f"{MARK} exit code 7")
    assert lines[2:] == ["the command"]


def test_a_script_that_hangs_is_stopped_and_the_session_goes_on(
    runtime: DockerRuntime, start: Callable[..., str]
) -> None:
    name = start(script="exec sleep 600", seconds=1)
    wait_until(lambda: is_over(runtime, name), deadline_s=PATIENCE_S)
    assert progress_of(runtime, name).exit_code not in (0, None)
    assert b"sleep 600" not in runtime.run_process(name, ("ps", "-o", "args")).output
