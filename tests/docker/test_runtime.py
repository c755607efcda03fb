"""Isolation of a container and behaviour of its streams, on a real engine."""

import asyncio
import io
import os
import re
import tarfile
from pathlib import Path
from uuid import uuid4

import pytest

from agents.accelerators.description import no_accelerators
from agents.accelerators.grant import DeviceGrant, DeviceNode
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.encoding import bridge_name
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import (
    ContainerStatus,
    DeviceUnavailable,
    HelperSpec,
    MountSpec,
    NetworkSpec,
    ProcessTimeout,
    RuntimeRefused,
)
from agents.runtime.port_async import ProcessSpec
from tests import engines
from tests.waiting import wait_until

pytestmark = pytest.mark.docker
POOL = "10.214.16.0/20"


def start(runtime: DockerRuntime, *command: str, **changes: object) -> str:
    spec = engines.tiny_spec(f"berth-test-{uuid4().hex[:12]}", *command, **changes)
    runtime.ensure_container(spec)
    runtime.start_container(spec.name)
    return spec.name


def output_of(runtime: DockerRuntime, name: str, script: str) -> str:
    return runtime.run_process(name, ["sh", "-c", script]).output.decode()


def processes(runtime: DockerRuntime, name: str) -> str:
    return output_of(runtime, name, "ps -o args")


def make_network(runtime: DockerRuntime) -> str:
    spec = NetworkSpec(f"berth-test-{uuid4().hex[:12]}", engines.LABELS, POOL)
    runtime.ensure_network(spec)
    return spec.name


def test_process_has_no_capability_no_way_to_more_and_its_limits(runtime: DockerRuntime) -> None:
    name = start(runtime, nofile=1000, shm_bytes=2**20, pids_limit=20)

    status = output_of(runtime, name, "cat /proc/self/status")
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert re.search(rf"{field}:\s+0+$", status, re.MULTILINE)
    assert re.search(r"NoNewPrivs:\s+1", status)
    assert re.search(r"Uid:\s+1000", status)
    assert output_of(runtime, name, "ulimit -n").strip() == "1000"
    assert "1.0M" in output_of(runtime, name, "df -h /dev/shm")
    many = "for i in $(seq 40); do sleep 60 & done; wait"
    assert runtime.run_process(name, ["sh", "-c", many], timeout_s=10).exit_code != 0
    runtime.remove_container(name)


def test_neither_image_nor_environment_asks_for_accelerators(runtime: DockerRuntime) -> None:
    name = start(runtime, environment={"NVIDIA_VISIBLE_DEVICES": "0", "A": "b"})
    seen = dict(line.split("=", 1) for line in output_of(runtime, name, "env").splitlines())
    assert seen.items() >= {"A": "b", **no_accelerators()}.items()


def test_container_that_takes_too_much_memory_is_killed_and_says_so(runtime: DockerRuntime) -> None:
    name = start(runtime, "sh", "-c", "tail /dev/zero", mem_bytes=16 * 2**20, has_init=False)

    def is_over() -> bool:
        state = runtime.inspect_container(name)
        return state is not None and state.status is ContainerStatus.EXITED

    wait_until(is_over, deadline_s=20)
    state = runtime.inspect_container(name)
    assert state is not None
    assert (state.exit_code, state.was_oom_killed) == (137, True)
    runtime.remove_container(name)


def test_container_runs_on_its_cores_and_on_all_where_the_machine_has_no_such_ones(
    runtime: DockerRuntime,
) -> None:
    name = start(runtime, cpuset="0")
    allowed = "grep Cpus_allowed_list /proc/self/status"
    assert output_of(runtime, name, allowed).split()[-1] == "0"

    other = start(runtime, cpuset="8000-8001")
    assert output_of(runtime, other, "nproc").strip() == str(os.cpu_count())
    for each in (name, other):
        runtime.remove_container(each)


def test_root_that_is_read_only_leaves_places_for_scratch_where_programs_run(runtime: DockerRuntime) -> None:
    home = f"berth-test-{uuid4().hex[:12]}"
    runtime.ensure_volume(home, engines.LABELS)
    mounts = (
        MountSpec("volume", "/home/work", home, owner=(1000, 1000)),
        MountSpec("tmpfs", "/tmp", size_bytes=2**20),
        MountSpec("volume", "/home/scratch"),
    )
    name = start(runtime, is_readonly=True, mounts=mounts)

    assert "Read-only" in output_of(runtime, name, "touch /bin/x 2>&1")
    assert output_of(runtime, name, "cp /bin/true /home/work && /home/work/true && echo runs") == "runs\n"
    assert (
        output_of(runtime, name, "printf '#!/bin/sh\necho runs\n' >/tmp/x; chmod +x /tmp/x; /tmp/x")
        == "runs\n"
    )
    [scratch] = [line for line in output_of(runtime, name, "mount").splitlines() if " /home/scratch " in line]
    assert scratch
    runtime.remove_container(name)
    runtime.remove_volume(home)


def test_home_belongs_to_the_user_and_outlives_its_container(runtime: DockerRuntime) -> None:
    home = f"berth-test-{uuid4().hex[:12]}"
    runtime.ensure_volume(home, engines.LABELS)
    mounts = (MountSpec("volume", "/home/work", home, owner=(1000, 1000)),)

    first = start(runtime, mounts=mounts)
    assert output_of(runtime, first, "stat -c %u:%g:%a /home/work").strip() == "1000:1000:755"
    assert runtime.run_process(first, ["sh", "-c", "echo kept > /home/work/file"]).exit_code == 0
    runtime.remove_container(first)

    second = start(runtime, mounts=mounts)
    assert output_of(runtime, second, "cat /home/work/file") == "kept\n"
    runtime.remove_container(second)
    runtime.remove_volume(home)


def test_volume_that_a_killed_engine_left_without_labels_is_made_anew(runtime: DockerRuntime) -> None:
    volume = f"berth-test-{uuid4().hex}"
    runtime.connection.client().create_volume(volume)
    runtime.ensure_volume(volume, engines.LABELS)
    assert volume in [found.name for found in runtime.list_volumes(engines.LABELS)]
    runtime.remove_volume(volume)


def test_folders_are_mounted_as_asked(runtime: DockerRuntime, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from the machine")
    tmp_path.chmod(0o777)
    mounts = (
        MountSpec("bind", "/home/work/ro", str(tmp_path), is_readonly=True),
        MountSpec("bind", "/home/work/rw", str(tmp_path)),
        MountSpec("tmpfs", "/scratch", size_bytes=2**20),
    )
    name = start(runtime, mounts=mounts)

    assert output_of(runtime, name, "cat /home/work/ro/file") == "from the machine"
    assert "Read-only" in output_of(runtime, name, "touch /home/work/ro/x 2>&1")
    assert runtime.run_process(name, ["touch", "/home/work/rw/new"]).exit_code == 0
    assert (tmp_path / "new").exists()
    assert "No space" in output_of(runtime, name, "dd if=/dev/zero of=/scratch/x bs=1M count=2 2>&1")
    runtime.remove_container(name)


def test_mount_of_an_absent_folder_is_refused(runtime: DockerRuntime) -> None:
    spec = engines.tiny_spec("berth-test-absent", mounts=(MountSpec("bind", "/data", "/nonexistent/folder"),))
    with pytest.raises(RuntimeRefused, match="/nonexistent/folder"):
        runtime.ensure_container(spec)


def test_containers_meet_in_their_network_and_nowhere_else(runtime: DockerRuntime) -> None:
    network, other = make_network(runtime), make_network(runtime)
    serve = "while true; do echo hello | nc -l -p 8000; done"
    server = start(runtime, "sh", "-c", serve, network=network, aliases=("main1",))
    friend, stranger = start(runtime, network=network), start(runtime, network=other)
    state = runtime.inspect_container(server)
    assert state is not None
    call = f"nc -w 2 {state.addresses[network]} 8000"

    wait_until(lambda: output_of(runtime, friend, "nc -w 2 main1 8000") == "hello\n")
    wait_until(lambda: output_of(runtime, friend, call) == "hello\n")
    assert "hello" not in output_of(runtime, stranger, call)
    assert Path(f"/sys/class/net/{bridge_name(network)}").exists()
    for name in (server, friend, stranger):
        runtime.remove_container(name)
    for name in (network, other):
        runtime.remove_network(name)


def helper(*command: str, **changes: object) -> HelperSpec:
    told = {"image": engines.TINY_IMAGE, "labels": engines.LABELS, "command": command}
    return HelperSpec(name=f"berth-test-{uuid4().hex[:12]}", **(told | changes))  # type: ignore[arg-type]


def test_helper_stands_in_the_machine_s_network_with_its_capability_alone(runtime: DockerRuntime) -> None:
    script = "echo user $(id -u); readlink /proc/self/ns/net; grep CapEff /proc/self/status; touch /x; exit 3"
    done = runtime.run_helper(helper("sh", "-c", script, capabilities=("NET_ADMIN",), has_network=True))

    said = done.output.decode()
    assert done.exit_code == 3
    assert "user 0\n" in said
    assert os.readlink("/proc/self/ns/net") in said
    assert "CapEff:\t0000000000001000" in said
    assert "Read-only" in said


def test_helper_has_the_files_devices_and_processes_that_it_names_and_no_network(
    runtime: DockerRuntime,
) -> None:
    volume, other = (f"berth-test-{uuid4().hex[:12]}" for _ in range(2))
    runtime.ensure_volume(volume, engines.LABELS, tmpfs_bytes=2**20)
    runtime.ensure_volume(other, engines.LABELS)
    script = """
    ls /sys/class/net; ls -d /proc/$KEPT_PID; head -c 1 /dev/granted | wc -c; head -c 1 /dev/full | wc -c
    touch /kept/a /shared/a && echo written; touch /machine/a; df -k /shared | tail -n 1 | tr -s ' '
    mknod /kept/node c 1 3 && head -c 1 /kept/node; sh /opt/berth/hello.sh"""
    spec = helper(
        "sh", "-c", script,
        environment={"KEPT_PID": str(os.getpid())},
        files={"hello.sh": b"echo from a file"},
        mounts=(
            MountSpec("bind", "/machine", "/etc", is_readonly=True),
            MountSpec("volume", "/kept", other),
            MountSpec("volume", "/shared", volume),
        ),
        grant=DeviceGrant(nodes=(DeviceNode("/dev/zero", "/dev/granted"),)),
        sees_processes=True,
    )  # fmt: skip
    said = runtime.run_helper(spec).output.decode()
    runtime.remove_volume(volume)
    runtime.remove_volume(other)

    assert "lo\n" in said  # errors come between the lines whenever they are read
    assert "eth" not in said
    assert f"/proc/{os.getpid()}\n" in said
    assert "\n1\n" in said
    assert "written\n" in said
    assert "tmpfs 1024 " in said
    assert "/machine/a: Read-only file system" in said
    assert "/kept/node" in said
    assert "from a file\n" in said


def test_helper_that_does_not_end_is_ended(runtime: DockerRuntime) -> None:
    spec = helper("sleep", "60")
    with pytest.raises(ProcessTimeout, match=spec.name):
        runtime.run_helper(spec, timeout_s=1)
    assert runtime.inspect_container(spec.name) is None


def test_archive_is_unpacked_before_the_start(runtime: DockerRuntime) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("etc/greeting")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))
    spec = engines.tiny_spec(f"berth-test-{uuid4().hex[:12]}", "cat", "/etc/greeting")
    runtime.ensure_container(spec)
    runtime.put_archive(spec.name, "/", buffer.getvalue())
    runtime.start_container(spec.name)

    wait_until(lambda: runtime.read_logs(spec.name) == b"hello")
    runtime.remove_container(spec.name)


def test_process_gives_its_output_and_exit_code(runtime: DockerRuntime) -> None:
    name = start(runtime)
    script = "echo $GREETING; echo wrong >&2; exit 3"
    result = runtime.run_process(name, ["sh", "-c", script], environment={"GREETING": "hi"})
    assert (result.exit_code, sorted(result.output.split())) == (3, [b"hi", b"wrong"])

    cut = runtime.run_process(name, ["head", "-c", "100000", "/dev/zero"], output_limit=10)
    assert (cut.exit_code, len(cut.output)) == (0, 10)
    assert runtime.run_process(name, ["nonsense"]).exit_code in (126, 127)
    with pytest.raises(RuntimeRefused, match="nonsense"):
        runtime.start_process(name, ["nonsense"])
    with pytest.raises(ProcessTimeout, match="sleep"):
        runtime.run_process(name, ["sleep", "60"], timeout_s=0.3)
    runtime.remove_container(name)


def test_logs_are_rotated_and_keep_every_letter(runtime: DockerRuntime) -> None:
    script = "echo first; seq 40000; exec sleep infinity"
    name = start(runtime, "sh", "-c", script, log_bytes=2**20)

    wait_until(lambda: runtime.read_logs(name, limit_bytes=6) == b"40000\n", deadline_s=20, interval_s=0.3)
    kept = runtime.read_logs(name, limit_bytes=2**24)
    assert b"first" not in kept
    assert 2**14 < len(kept) < 2**20
    quiet = start(runtime, "echo", "größer ⚓")
    wait_until(lambda: runtime.read_logs(quiet) == "größer ⚓\n".encode())
    for each in (name, quiet):
        runtime.remove_container(each)


async def test_closed_terminals_leave_nothing_behind(runtime: DockerRuntime) -> None:
    name = start(runtime)
    loop_runtime = DockerAsyncRuntime(engines.ADDRESS)
    asking = await loop_runtime.open_process(name, ProcessSpec())
    asking.write(b"sleep 1111\n")
    replaced = await loop_runtime.open_process(name, ProcessSpec(argv=("cat",)))
    deaf_script = ("sh", "-c", "trap '' HUP; while true; do sleep 1; done")
    deaf = await loop_runtime.open_process(name, ProcessSpec(argv=deaf_script))
    await asyncio.to_thread(wait_until, lambda: "sleep 1111" in processes(runtime, name))

    for process in (asking, replaced, deaf):
        assert await process.close()
    await loop_runtime.close()

    def is_clean() -> bool:
        shown = processes(runtime, name)
        return not any(word in shown for word in ("1111", "cat", "trap", "kill"))

    await asyncio.to_thread(wait_until, is_clean)
    runtime.remove_container(name)


async def test_terminal_has_the_size_and_the_environment_it_was_given(runtime: DockerRuntime) -> None:
    name = start(runtime)
    loop_runtime = DockerAsyncRuntime(engines.ADDRESS)
    spec = ProcessSpec(
        argv=("sh", "-c", "read x; stty size; echo $TERM-$COLOUR; read x; stty size"),
        environment={"COLOUR": "teal"},
        columns=100,
        rows=30,
    )
    shell = await loop_runtime.open_process(name, spec)
    shell.write(b"\n")
    seen = b""
    while b"teal" not in seen:
        seen += (await shell.read())[1]
    assert seen.split()[-3:] == [b"30", b"100", b"xterm-256color-teal"]

    await shell.resize(120, 40)
    shell.write(b"\n")
    while data := (await shell.read())[1]:
        seen += data
    assert b"40 120" in seen
    await shell.close()
    await loop_runtime.close()
    runtime.remove_container(name)


async def test_programs_of_a_person_end_for_memory_before_the_rest_of_the_session(
    runtime: DockerRuntime,
) -> None:
    name = start(runtime)
    assert output_of(runtime, name, "cat /proc/1/oom_score_adj") == "300\n"

    loop_runtime = DockerAsyncRuntime(engines.ADDRESS)
    shell = await loop_runtime.open_process(name, ProcessSpec(argv=("cat", "/proc/self/oom_score_adj")))
    seen = b""
    while data := (await shell.read())[1]:
        seen += data
    assert seen.split() == [b"1000"]
    await shell.close()
    await loop_runtime.close()
    runtime.remove_container(name)


async def test_terminal_that_nobody_reads_does_not_grow_this_process(runtime: DockerRuntime) -> None:
    name = start(runtime)
    loop_runtime = DockerAsyncRuntime(engines.ADDRESS)
    shell = await loop_runtime.open_process(name, ProcessSpec(argv=("yes",)))
    before = resident_pages()

    def written_bytes() -> int:
        found = output_of(runtime, name, "grep wchar /proc/$(pidof yes)/io")
        return int(found.split()[1])

    last = -1
    while (now := await asyncio.to_thread(written_bytes)) != last:
        last = now
    assert resident_pages() - before < 20 * 2**20 // 4096
    await shell.close()
    await loop_runtime.close()
    runtime.remove_container(name)


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def test_container_runs_in_the_runtime_that_its_spec_names(runtime: DockerRuntime) -> None:
    """Engines know runc by a second name, too."""
    second = next(name for name in runtime.info().runtimes if name != runtime.info().default_runtime)
    spec = engines.tiny_spec(f"berth-test-{uuid4().hex[:12]}", runtime=second)
    runtime.ensure_container(spec)
    runtime.start_container(spec.name)
    assert output_of(runtime, spec.name, "echo there").strip() == "there"
    assert runtime.connection.client().inspect_container(spec.name)["HostConfig"]["Runtime"] == second
    with pytest.raises(DeviceUnavailable, match="Unknown runtime specified runsc"):
        runtime.ensure_container(engines.tiny_spec(f"berth-test-{uuid4().hex[:12]}", runtime="runsc"))
