"""Promises of every container runtime, tested against Docker and the simulated one."""

import asyncio
import io
import os
import re
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agents.runtime.docker.log_entries import START
from agents.runtime.port import (
    ContainerConflict,
    ContainerGone,
    ContainerState,
    ContainerStatus,
    HelperSpec,
    ImageMissing,
    ImagePullFailed,
    MountSpec,
    NetworkSpec,
    OutOfCapacity,
    RuntimeRefused,
)
from agents.runtime.port_async import AsyncRuntime
from tests import engines
from tests.contract.conftest import Rig
from tests.waiting import wait_until

FOREIGN = {"io.berth.installation": "another"}


def ended(rig: Rig, name: str) -> ContainerState:
    def state_at_end() -> ContainerState | None:
        state = rig.runtime.inspect_container(name)
        return state if state and state.status is ContainerStatus.EXITED else None

    return wait_until(state_at_end)  # type: ignore[return-value]


def test_info_tells_what_the_machine_has(rig: Rig) -> None:
    info = rig.runtime.info()

    assert info.engine_id
    assert info.architecture in ("x86_64", "aarch64")
    assert info.cpu_milli >= 1000
    assert info.mem_bytes > 2**28
    assert info.cgroup_version in (1, 2)
    assert info.default_runtime in ("", *info.runtimes)
    assert info.booted_at is None or info.booted_at < datetime.now(UTC)


# Images


def test_present_image_is_listed_and_inspected_under_its_name(rig: Rig) -> None:
    assert rig.image in [reference for image in rig.runtime.list_images() for reference in image.references]
    found = rig.runtime.inspect_image(rig.image)
    assert found is not None
    assert found.architecture == rig.runtime.info().architecture
    assert rig.runtime.inspect_image(found.image_id) == found


def test_absent_image_is_none(rig: Rig) -> None:
    assert rig.runtime.inspect_image("berth-test/nothing:1") is None


def test_pull_from_a_dead_registry_fails_with_the_reference_in_the_message(rig: Rig) -> None:
    with pytest.raises(ImagePullFailed, match=r"127\.0\.0\.1:9/nothing:1"):
        rig.runtime.pull_image("127.0.0.1:9/nothing:1", on_progress=lambda progress: None)


def test_image_goes_from_one_engine_to_another_with_its_name(rig: Rig) -> None:
    found = rig.runtime.inspect_image(rig.image)
    assert found
    archive = list(rig.runtime.export_image(rig.image))
    rig.forget_image(rig.image)
    assert rig.runtime.inspect_image(rig.image) is None
    with pytest.raises(ImageMissing):
        rig.runtime.export_image(rig.image)
    rig.runtime.import_image(iter(archive))
    again = rig.runtime.inspect_image(rig.image)
    assert again
    assert (again.image_id, again.labels) == (found.image_id, found.labels)


def test_image_is_removed_unless_a_container_needs_it(rig: Rig) -> None:
    archive = list(rig.runtime.export_image(rig.image))
    spec = rig.spec()
    rig.runtime.ensure_container(spec)
    with pytest.raises(RuntimeRefused):
        rig.runtime.remove_image(rig.image)
    rig.runtime.remove_container(spec.name)
    rig.runtime.remove_image(rig.image)
    rig.runtime.remove_image(rig.image)
    assert rig.runtime.inspect_image(rig.image) is None
    rig.runtime.import_image(iter(archive))


# Networks and volumes


def test_network_is_made_once_and_removed_once(rig: Rig) -> None:
    spec = rig.network()
    rig.runtime.ensure_network(spec)
    rig.runtime.ensure_network(spec)
    assert [network.name for network in rig.runtime.list_networks(spec.labels)].count(spec.name) == 1

    rig.runtime.remove_network(spec.name)
    rig.runtime.remove_network(spec.name)
    assert spec.name not in [network.name for network in rig.runtime.list_networks({})]


def test_foreign_network_of_the_same_name_is_a_conflict(rig: Rig) -> None:
    spec = rig.network()
    rig.runtime.ensure_network(spec)
    with pytest.raises(ContainerConflict):
        rig.runtime.ensure_network(replace(spec, labels=FOREIGN))
    rig.runtime.remove_network(spec.name)


def test_pool_that_is_used_up_is_out_of_capacity(rig: Rig) -> None:
    pool = f"10.215.{os.getpid() % 256}.0/28"  # of this run alone
    first, second = (NetworkSpec(rig.name(), engines.LABELS, pool) for _ in range(2))
    rig.runtime.ensure_network(first)
    with pytest.raises(OutOfCapacity, match=re.escape(pool)):
        rig.runtime.ensure_network(second)
    rig.runtime.remove_network(first.name)


def test_networks_made_at_the_same_moment_all_get_a_subnet(rig: Rig) -> None:
    specs = [rig.network() for _ in range(6)]
    with ThreadPoolExecutor(len(specs)) as pool:
        list(pool.map(rig.runtime.ensure_network, specs))

    there = {network.name for network in rig.runtime.list_networks(engines.LABELS)}
    assert {spec.name for spec in specs} <= there
    for spec in specs:
        rig.runtime.remove_network(spec.name)


def test_two_workers_that_make_one_network_make_one(rig: Rig) -> None:
    spec = rig.network()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(rig.runtime.ensure_network, [spec] * 4))
    assert [network.name for network in rig.runtime.list_networks(spec.labels)].count(spec.name) == 1
    rig.runtime.remove_network(spec.name)


def test_network_in_use_is_not_removed(rig: Rig) -> None:
    spec = rig.network()
    rig.runtime.ensure_network(spec)
    name = rig.running(network=spec.name)
    with pytest.raises(RuntimeRefused):
        rig.runtime.remove_network(spec.name)

    rig.runtime.remove_container(name)
    rig.runtime.remove_network(spec.name)


def test_volume_is_made_once_kept_while_in_use_and_removed_once(rig: Rig) -> None:
    volume = rig.name()
    rig.runtime.ensure_volume(volume, engines.LABELS)
    rig.runtime.ensure_volume(volume, engines.LABELS)
    spec = rig.spec(mounts=(MountSpec("volume", "/home/work", volume, owner=(1000, 1000)),))
    rig.runtime.ensure_container(spec)
    with pytest.raises(RuntimeRefused):
        rig.runtime.remove_volume(volume)
    with pytest.raises(ContainerConflict):
        rig.runtime.ensure_volume(volume, FOREIGN)

    rig.runtime.remove_container(spec.name)
    assert volume in [found.name for found in rig.runtime.list_volumes(engines.LABELS)]
    rig.runtime.remove_volume(volume)
    rig.runtime.remove_volume(volume)
    assert volume not in [found.name for found in rig.runtime.list_volumes(engines.LABELS)]


# A container's life


def test_container_lives_from_created_to_gone(rig: Rig) -> None:
    network = rig.network()
    rig.runtime.ensure_network(network)
    spec = rig.spec(network=network.name)

    assert rig.runtime.ensure_container(spec).status is ContainerStatus.CREATED
    rig.runtime.start_container(spec.name)
    state = rig.runtime.inspect_container(spec.name)
    assert state is not None
    assert state.status is ContainerStatus.RUNNING
    assert state.exit_code is None
    assert state.started_at is not None
    assert state.addresses[network.name].startswith("10.214.")

    rig.runtime.stop_container(spec.name, grace_s=5)
    assert ended(rig, spec.name).exit_code == 143
    rig.runtime.remove_container(spec.name)
    assert rig.runtime.inspect_container(spec.name) is None
    rig.runtime.remove_network(network.name)


def test_each_step_may_be_repeated(rig: Rig) -> None:
    spec = rig.spec()
    first = rig.runtime.ensure_container(spec)
    assert rig.runtime.ensure_container(spec).container_id == first.container_id
    for _ in range(2):
        rig.runtime.start_container(spec.name)
    assert rig.runtime.ensure_container(spec).status is ContainerStatus.RUNNING
    for _ in range(2):
        rig.runtime.stop_container(spec.name, grace_s=5)
    for _ in range(2):
        rig.runtime.remove_container(spec.name)
    rig.runtime.stop_container(spec.name, grace_s=5)


def test_two_workers_that_make_one_container_make_one(rig: Rig) -> None:
    spec = rig.spec()
    with ThreadPoolExecutor(2) as pool:
        states = list(pool.map(rig.runtime.ensure_container, [spec, spec]))
    assert states[0].container_id == states[1].container_id
    rig.runtime.remove_container(spec.name)


def test_foreign_container_of_the_same_name_is_a_conflict(rig: Rig) -> None:
    spec = rig.spec()
    rig.runtime.ensure_container(spec)
    with pytest.raises(ContainerConflict, match=spec.name):
        rig.runtime.ensure_container(replace(spec, labels=FOREIGN))
    rig.runtime.remove_container(spec.name)


def test_container_of_an_absent_image_is_refused(rig: Rig) -> None:
    with pytest.raises(ImageMissing):
        rig.runtime.ensure_container(rig.spec(image="berth-test/nothing:1"))


def test_list_has_the_containers_with_all_labels_in_any_state(rig: Rig) -> None:
    mark = {"io.berth.session": rig.name()}
    created = rig.spec(labels=engines.LABELS | mark)
    rig.runtime.ensure_container(created)
    running = rig.running(labels=engines.LABELS | mark)
    rig.running()

    found = {state.name: state.status for state in rig.runtime.list_containers(engines.LABELS | mark)}
    assert found == {created.name: ContainerStatus.CREATED, running: ContainerStatus.RUNNING}
    for name in found:
        rig.runtime.remove_container(name)


def test_output_and_exit_code_stay_after_the_end(rig: Rig) -> None:
    spec = rig.spec()
    rig.run_to_end(spec, b"one\ntwo\nthree\n", 7)

    state = ended(rig, spec.name)
    assert state.exit_code == 7
    assert not state.was_oom_killed
    assert state.finished_at is not None
    listed = [found for found in rig.runtime.list_containers(engines.LABELS) if found.name == spec.name]
    assert [found.exit_code for found in listed] == [7]
    assert rig.runtime.read_logs(spec.name) == b"one\ntwo\nthree\n"
    assert rig.runtime.read_logs(spec.name, limit_bytes=6) == b"three\n"
    rig.runtime.remove_container(spec.name)


def test_container_that_has_ended_is_not_started_again(rig: Rig) -> None:
    spec = rig.spec()
    rig.run_to_end(spec, b"once\n", 3)
    end = ended(rig, spec.name)

    rig.runtime.start_container(spec.name)

    assert ended(rig, spec.name) == end
    assert rig.runtime.read_logs(spec.name) == b"once\n"
    rig.runtime.remove_container(spec.name)


def test_calls_that_need_a_container_say_that_it_is_gone(rig: Rig) -> None:
    archive = io.BytesIO()
    tarfile.open(fileobj=archive, mode="w").close()
    for call in (
        lambda: rig.runtime.start_container("berth-test-none"),
        lambda: rig.runtime.start_process("berth-test-none", ["true"]),
        lambda: rig.runtime.run_process("berth-test-none", ["true"]),
        lambda: rig.runtime.read_logs("berth-test-none"),
        lambda: rig.runtime.put_archive("berth-test-none", "/", archive.getvalue()),
    ):
        with pytest.raises(ContainerGone):
            call()


def test_processes_need_a_running_container(rig: Rig) -> None:
    name = rig.running()
    rig.runtime.start_process(name, ["true"])
    assert rig.runtime.run_process(name, ["true"]).exit_code == 0

    rig.runtime.stop_container(name, grace_s=5)
    with pytest.raises(ContainerGone):
        rig.runtime.start_process(name, ["true"])
    rig.runtime.remove_container(name)


def test_processes_of_a_container_are_known_by_their_ids_on_the_machine(rig: Rig) -> None:
    name = rig.running()
    for pid in rig.runtime.process_ids(name):
        assert b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    rig.runtime.remove_container(name)
    with pytest.raises(ContainerGone):
        rig.runtime.process_ids(name)


def helper(rig: Rig, *command: str, image: str = "") -> HelperSpec:
    return HelperSpec(name=rig.name(), image=image or rig.image, labels=engines.LABELS, command=command)


def test_helper_runs_to_its_end_and_leaves_nothing(rig: Rig) -> None:
    spec = helper(rig, "sh", "-c", "true")

    assert rig.runtime.run_helper(spec).exit_code == 0
    assert rig.runtime.inspect_container(spec.name) is None


def test_helper_without_its_image_is_a_fault(rig: Rig) -> None:
    with pytest.raises(ImageMissing):
        rig.runtime.run_helper(helper(rig, "true", image="berth-test/nothing:1"))


async def test_helper_runs_on_until_it_is_removed_and_its_last_whole_line_is_read(
    rig: Rig, async_runtime: AsyncRuntime
) -> None:
    spec = helper(rig, "sh", "-c", "echo one; echo two; printf half; exec sleep 1000")
    first = rig.runtime.ensure_helper(spec)
    rig.say(spec.name, b"one\ntwo\nhalf")
    async with asyncio.timeout(10):
        while await async_runtime.read_last_line(spec.name) != b"two":
            await asyncio.sleep(0.01)
    again = rig.runtime.ensure_helper(spec)
    assert (again.status, again.started_at) == (ContainerStatus.RUNNING, first.started_at)

    changed = rig.runtime.ensure_helper(replace(spec, environment={"BERTH_INTERVAL_S": "5"}))
    assert changed.started_at != first.started_at
    assert [each.name for each in rig.runtime.list_containers(spec.labels)].count(spec.name) == 1
    with pytest.raises(ContainerConflict):
        rig.runtime.ensure_helper(replace(spec, labels=FOREIGN))
    rig.runtime.remove_container(spec.name)
    with pytest.raises(ContainerGone):
        await async_runtime.read_last_line(spec.name)


# On the event loop


async def test_followed_log_ends_with_the_container_and_goes_on_from_any_part(
    rig: Rig, async_runtime: AsyncRuntime
) -> None:
    spec = rig.spec()
    rig.run_to_end(spec, b"same\nsame\nother\n", 0)

    parts = [part async for part in async_runtime.follow_logs(spec.name)]
    assert b"".join(part.text for part in parts) == b"same\nsame\nother\n"
    ended(rig, spec.name)
    entries = rig.runtime.read_log_tail(spec.name, limit_bytes=2**20).entries
    for seen in range(4):
        position = START.after(entries[:seen])
        rest = [part async for part in async_runtime.follow_logs(spec.name, position)]
        assert b"".join(part.text for part in rest) == b"".join(entry.text for entry in entries[seen:])
        assert not any(part.gap for part in rest)
    rig.runtime.remove_container(spec.name)


async def test_log_of_an_absent_container_is_gone(rig: Rig, async_runtime: AsyncRuntime) -> None:
    with pytest.raises(ContainerGone):
        async for _ in async_runtime.follow_logs("berth-test-none"):
            pass


# Memory


def test_program_that_is_ended_for_its_memory_is_named_and_the_container_goes_on(rig: Rig) -> None:
    labels = engines.LABELS | {"io.berth.test": rig.name()}
    name = rig.running(labels=labels, mem_bytes=16 * 2**20)
    assert rig.runtime.list_memory_kills(labels) == []

    rig.run_out_of_memory(name)
    [kill] = wait_until(lambda: rig.runtime.list_memory_kills(labels))  # type: ignore[misc]
    assert kill.container == name
    state = rig.runtime.inspect_container(name)
    assert state is not None
    assert state.status is ContainerStatus.RUNNING
    assert rig.runtime.list_memory_kills(FOREIGN) == []
    rig.runtime.remove_container(name)
