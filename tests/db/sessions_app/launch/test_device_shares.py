"""Parts of devices: what limits them, and that nothing is claimed but what was read back."""

from datetime import timedelta
from typing import Any

import pytest

from agents.core.states import AgentState
from agents.machines import lifecycle
from agents.machines.network_isolation import NOT_REQUIRED
from agents.machines.withholding import withhold_devices
from agents.models import AgentDevice, Withheld
from agents.sharing import helper_containers, mps
from agents.sharing.service import create_sharing_rule
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput
from portal.models import Notification
from scheduler.tick import run_tick
from sessions_app import tasks
from sessions_app.core.states import Reason, Status
from sessions_app.launch.device_share_monitor import (
    DAEMON_ENDED,
    REMOVED,
    monitor_device_shares,
    remove_unused_daemons,
)
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.termination.service import terminate_session
from tests.doubles.nvidia_engine import GIB, HELPER_IMAGE, HOOK_IMAGE, NvidiaEngine, give_gpus
from tests.factories import actor_for
from tests.factories_devices import devices_of
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def engine(place: Place, settings: Any, monkeypatch: pytest.MonkeyPatch) -> NvidiaEngine:
    settings.BERTH_WALLS = NOT_REQUIRED
    monkeypatch.setattr(helper_containers, "built_image_ids", lambda: [HELPER_IMAGE])
    engine = give_gpus(place.agent, place.image.reference)
    place.agent.refresh_from_db()
    return engine


def share_by(place: Place, mode: str, **columns: Any) -> None:
    create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, mode=mode, **columns)


def launched(place: Place, share: float = 0.25, *, least: str = "", slot: str = "cuda") -> ComputeSession:
    session = place.place(resources={"cpu": 1, "mem": "1g", slot: share})
    ComputeSession.objects.filter(pk=session.pk).update(isolation=least)
    launch_session(session.pk)
    return place.fresh(session)


def isolation(session: ComputeSession, slot: str = "cuda") -> tuple[str, str]:
    held = KernelAllocation.objects.get(kernel__session=session, slot_name=slot)
    return held.isolation, held.isolation_note


def test_whole_device_needs_no_helper(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "memory")
    session = launched(place, 1, least="driver")
    assert (session.status, isolation(session), engine.helpers) == (Status.RUNNING, ("whole", ""), [])


def test_group_without_rules_shares_in_time_slices_and_says_so(place: Place, engine: NvidiaEngine) -> None:
    session = launched(place)
    assert (session.status, isolation(session), engine.helpers) == (Status.RUNNING, ("none", ""), [])


def test_limit_of_the_driver_is_claimed_after_it_was_read_back(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "memory")
    session = launched(place, least="driver")
    assert (session.status, isolation(session)) == (Status.RUNNING, ("driver", ""))
    [helper] = engine.helpers
    assert (helper.image, helper.is_privileged, helper.sees_processes) == (HELPER_IMAGE, True, True)
    container = engine.inspect_container(engine.specs[0].name)
    assert container is not None
    assert helper.command[3:] == ("limit", "GPU-0", container.container_id, str(20 * GIB))
    environment = engine.specs[0].grant.environment
    assert environment["NVIDIA_GPU_MEMORY_LIMIT"] == environment["NVIDIA_GPU_MEMORY_REQUEST"] == "20480"


@pytest.mark.parametrize(
    ("limits", "note"),
    [("ignores", "not set"), ("refuses", "Insufficient Permissions"), ("missing", "too old")],
)
def test_limit_that_does_not_hold_is_never_claimed(
    place: Place, engine: NvidiaEngine, limits: str, note: str
) -> None:
    share_by(place, "memory")
    engine.limits = limits
    session = launched(place)
    level, why = isolation(session)
    assert (session.status, level, note in why) == (Status.RUNNING, "none", True)


def test_session_that_demands_more_than_was_read_back_does_not_run(
    place: Place, engine: NvidiaEngine
) -> None:
    share_by(place, "memory")
    engine.limits = "missing"
    session = launched(place, least="driver")
    assert (session.status, session.status_reason) == (Status.TERMINATING, Reason.ISOLATION_TOO_WEAK)
    assert "too old" in session.status_message.quote
    end_session(session.pk)
    assert place.fresh(session).status == Status.ERROR
    assert engine.inspect_container(engine.specs[0].name) is None
    assert [device.occupied for device in devices_of(place.agent)] == [0]


def test_mps_daemon_sets_the_limits_and_shares_pipes_and_memory(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "mps", smallest_share=250)
    engine.limits = "missing"
    first, second = launched(place, least="server"), launched(place)
    assert (isolation(first), isolation(second)) == (("server", ""), ("server", ""))
    device = devices_of(place.agent)[0]
    daemons = [helper for helper in engine.helpers if helper.name == mps.daemon_name(device)]
    assert [daemon.command[-2:] for daemon in daemons] == [("20480", "25")]
    assert not daemons[0].is_restarted
    shared = {volume.target: volume.name for volume in engine.specs[0].grant.volumes}
    assert shared == {"/run/nvidia-mps": mps.pipe_volume(device), "/dev/shm": mps.shm_volume(device)}
    assert shared.items() <= {mount.target: mount.source for mount in daemons[0].mounts}.items()


def test_end_of_the_daemon_is_told_and_the_device_waits_until_it_is_made_again(
    place: Place, engine: NvidiaEngine, django_capture_on_commit_callbacks: Any
) -> None:
    share_by(place, "mps", smallest_share=250)
    engine.limits = "missing"
    session = launched(place)
    waiting = place.enqueue(resources={"cpu": 1, "mem": "1g", "cuda": 0.25})
    device = devices_of(place.agent)[0]
    engine.remove_container(mps.daemon_name(device))
    engine.has_mps = False
    with django_capture_on_commit_callbacks(execute=True):
        monitor_device_shares()
    device.refresh_from_db()
    assert (device.withheld, isolation(session)) == (Withheld.HELPER, ("none", DAEMON_ENDED))
    assert Notification.objects.get(person=place.owner).code == "device_limits_lost"
    run_tick(place.group.pk)
    assert place.fresh(waiting).status == Status.PENDING

    engine.has_mps = True
    monitor_device_shares()
    device.refresh_from_db()
    assert (device.withheld, isolation(session)) == ("", ("server", ""))
    assert [helper.command[-2:] for helper in engine.helpers if helper.name == mps.daemon_name(device)] == [
        ("20480", "25")
    ] * 2
    run_tick(place.group.pk)
    assert place.fresh(waiting).status == Status.SCHEDULED


def test_daemon_ends_the_programs_of_a_session_before_its_container_stops(
    place: Place, engine: NvidiaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_by(place, "mps", smallest_share=250)
    session = launched(place)
    engine.mps_answers |= {"get_server_list": "71", "get_client_list 71": "4001\n4002"}
    monkeypatch.setattr(engine, "process_ids", lambda name: {4002})
    order: list[str] = []
    stop = engine.stop_container
    monkeypatch.setattr(
        engine, "stop_container", lambda name, grace: (order.append("stop"), stop(name, grace))
    )
    engine.mps_commands = order
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    assert order == ["get_server_list", "get_client_list 71", "terminate_client 71 4002", "stop"]


def test_daemon_is_removed_when_its_last_session_has_ended(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "mps", smallest_share=250)
    session = launched(place)
    device = devices_of(place.agent)[0]
    remove_unused_daemons(place.agent, engine)
    assert mps.is_running(engine, device)
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    remove_unused_daemons(place.agent, engine)
    assert engine.inspect_container(mps.daemon_name(device)) is None
    assert devices_of(place.agent)[0].withheld == ""


@pytest.mark.parametrize("is_removed", [False, True])
def test_device_of_a_killed_daemon_admits_all_programs_before_it_is_given_whole(
    place: Place, engine: NvidiaEngine, is_removed: bool
) -> None:
    share_by(place, "mps", smallest_share=250)
    session = launched(place)
    device = devices_of(place.agent)[0]
    engine.finish(mps.daemon_name(device), exit_code=137)
    if is_removed:
        engine.remove_container(mps.daemon_name(device))
        monitor_device_shares()
        engine.has_mps = True
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    place.group.sharing_rules.all().delete()

    def opened() -> list[str]:
        return [
            spec.name for spec in engine.helpers if spec.command == ("nvidia-smi", "--compute-mode=DEFAULT")
        ]

    assert opened() == []
    monitor_device_shares()
    assert launched(place, 1).status == Status.RUNNING
    assert opened() == [f"{mps.daemon_name(device)}-open"]


def test_mps_with_the_limit_of_the_driver_is_told_as_both(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "mps", smallest_share=250)
    assert isolation(launched(place)) == ("driver+mps", "")


def test_part_of_another_size_than_the_daemons_limits_claims_nothing(
    place: Place, engine: NvidiaEngine
) -> None:
    share_by(place, "mps", smallest_share=250)
    with pytest.raises(InvalidInput, match=r"one size here: 0\.25"):
        launched(place, 0.5)
    launched(place)
    place.group.sharing_rules.update(smallest_share=500)  # the daemon keeps its limits while it has clients
    level, note = isolation(launched(place, 0.5))
    assert (level, "20480 MiB and 25 %" in note) == ("none", True)


def test_hook_library_is_given_read_only_and_claimed_by_its_cache(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "hook", hook_image=HOOK_IMAGE)
    engine.hook_limit = 20 * GIB
    session = launched(place, least="cooperative")
    assert isolation(session) == ("cooperative", "")
    [copier] = engine.helpers
    assert (copier.image, copier.is_privileged, copier.capabilities) == (HOOK_IMAGE, False, ())
    grant = engine.specs[0].grant
    assert [(volume.target, volume.is_readonly) for volume in grant.volumes] == [
        ("/usr/local/berth-share", True)
    ]
    assert [bind.target for bind in grant.binds] == ["/etc/ld.so.preload", "/overrideEnv"]
    assert grant.environment["CUDA_DEVICE_MEMORY_LIMIT"] == "20480m"
    engine.hook_limit = 0
    assert isolation(launched(place))[0] == "none"


def test_image_without_the_hook_library_puts_the_device_aside(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "hook", hook_image=HOOK_IMAGE)
    engine.has_hook = False
    session = launched(place)
    assert session.status_reason == Reason.DEVICE_UNAVAILABLE
    [device] = devices_of(place.agent)
    assert (device.withheld, "no libvgpu.so" in device.withheld_because) == (Withheld.HELPER, True)
    assert not engine.specs


def test_partition_is_told_as_hardware_if_the_container_lists_it_alone(
    place: Place, engine: NvidiaEngine
) -> None:
    AgentDevice.objects.update(device_id="MIG-7", parent_id="GPU-0", profile="1g.10gb", mem_bytes=10 * GIB)
    engine.listed = ["MIG-7"]
    assert isolation(launched(place, 1, least="hardware")) == ("hardware", "")


def test_whole_device_is_freed_of_the_daemon_that_nobody_uses(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "mps", smallest_share=250)
    session = launched(place)
    device = devices_of(place.agent)[0]
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    assert mps.is_running(engine, device)
    assert launched(place, 1).status == Status.RUNNING
    assert engine.inspect_container(mps.daemon_name(device)) is None


def test_device_whose_daemon_is_being_removed_is_not_released_by_the_watch(
    place: Place, engine: NvidiaEngine
) -> None:
    share_by(place, "mps", smallest_share=250)
    device = devices_of(place.agent)[0]
    withhold_devices(place.agent.pk, [device.pk], kind=Withheld.HELPER, because=REMOVED)
    monitor_device_shares()
    assert (devices_of(place.agent)[0].withheld, mps.is_running(engine, device)) == (Withheld.HELPER, False)
    with clock.frozen_at(clock.now() + timedelta(minutes=11)):
        monitor_device_shares()
    assert devices_of(place.agent)[0].withheld == ""


def test_daemon_of_a_retired_machine_is_removed(place: Place, engine: NvidiaEngine) -> None:
    share_by(place, "mps", smallest_share=250)
    session = launched(place)
    device = devices_of(place.agent)[0]
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    end_session(session.pk)
    lifecycle.transition(place.agent.pk, to=AgentState.RETIRED, actor=SYSTEM)
    tasks.purge_expired()
    assert engine.inspect_container(mps.daemon_name(device)) is None
