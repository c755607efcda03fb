"""Accelerator metrics of sessions; unknown for devices that others use too."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.accelerators.base import DeviceUse
from agents.accelerators.description import vendor_named
from agents.accelerators.report import CommandOutput, MachineReport, command_key
from agents.accelerators.report_parser import use_probe
from agents.metering import collector as metering
from agents.metering.collector import measure_devices
from agents.metering.scrape import interpret
from agents.models import AgentDevice, ResourceGroup
from common import clock
from portal.models import Notification
from portal.notifications.selectors import notification_text
from sessions_app.core.idle_rules import ResourceUtilization
from sessions_app.core.states import Reason
from sessions_app.gateway.activity.recorder import write_report
from sessions_app.idle import enforcer
from sessions_app.idle.facts import find_next_end
from sessions_app.idle.messages import next_end_row
from sessions_app.idle.utilization import Measurement, computing_on_devices
from sessions_app.metrics import collector
from sessions_app.metrics.collector import MINUTE_S, SAMPLE_S
from sessions_app.metrics.history import Window, current_use, session_metrics
from sessions_app.models import (
    ComputeSession,
    KernelAllocation,
    KernelMetric,
    KernelUsage,
    SessionIdle,
    SessionWarning,
)
from tests.factories import actor_for
from tests.factories_devices import devices_of, give_devices
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GIB = 2**30
MINUTE = timedelta(minutes=1)
TOTAL = 80 * GIB
LITTLE = {"min_device_percent": 10, "use_window_s": 1200, "use_grace_s": 1200}


@pytest.fixture
def place() -> Place:
    """A machine with two accelerators."""
    made = make_place()
    give_devices(made.agent, 2)
    return made


def run_on(place: Place, *indexes: int, gpu: float = 1, cpu: float = 1, **changes: object) -> ComputeSession:
    """A running session that holds these devices."""
    session = place.run(resources={"cpu": cpu, "mem": "1g", "gpu": gpu}, **changes)
    devices = devices_of(place.agent)
    dealt = KernelAllocation.objects.get(kernel__session=session, slot_name="gpu")
    kernel, agent, amount = dealt.kernel, dealt.agent, dealt.amount
    dealt.delete()  # allocations are never updated
    KernelAllocation.objects.create(
        kernel=kernel,
        agent=agent,
        slot_name="gpu",
        amount=amount,
        devices=[devices[index].pk for index in indexes],
    )
    return session


def device_does(place: Place, index: int, percent: int | None, mem_bytes: int | None = 0) -> None:
    place.runtime.accelerators.use(
        DeviceUse(device_id=f"gpu-{index}", percent=percent, mem_bytes=mem_bytes, mem_total_bytes=TOTAL)
    )


def measure(second: float = 0) -> None:
    with clock.frozen_at(NOON + timedelta(seconds=second)):
        measure_all()


def measure_all() -> None:
    """A round of devices, and one of sessions."""
    measure_devices()
    collector.measure_sessions()


def rows(session: ComputeSession, span_s: int) -> list[tuple[int | None, int | None]]:
    found = KernelMetric.objects.filter(kernel__session=session, span_s=span_s).order_by("at")
    return list(found.values_list("device_percent", "device_mem_bytes"))


def with_parts(session: ComputeSession) -> ComputeSession:
    found: ComputeSession = ComputeSession.objects.with_parts().get(pk=session.pk)
    return found


# Measured


def test_a_kernel_is_measured_by_its_own_devices(place: Place) -> None:
    both, none = run_on(place, 0, 1, gpu=2), place.run()
    device_does(place, 0, 90, 10 * GIB)
    device_does(place, 1, 10, 2 * GIB)
    measure()
    assert (rows(both, SAMPLE_S), rows(none, SAMPLE_S)) == ([(50, 12 * GIB)], [(None, None)])
    usage = KernelUsage.objects.get(kernel__session=both)
    assert (usage.device_count, usage.device_milli, usage.device_mem_total) == (2, 2000, 2 * TOTAL)
    assert usage.devices_are_own is True
    assert KernelUsage.objects.get(kernel__session=none).device_count is None


def test_a_minute_has_the_mean_rounded_up_and_the_most(place: Place) -> None:
    session = run_on(place, 0)
    for second, percent in ((0, 0), (10, 1), (20, 0)):
        device_does(place, 0, percent, percent * GIB)
        measure(second)
    minute = KernelMetric.objects.get(kernel__session=session, span_s=MINUTE_S)
    assert (minute.device_percent, minute.device_percent_max) == (1, 1)
    assert (minute.device_mem_bytes, minute.device_mem_bytes_max) == (round(GIB / 3), GIB)


def test_a_device_that_falls_silent_is_a_hole_and_hides_no_processor(place: Place) -> None:
    session = run_on(place, 0)
    device_does(place, 0, 40, GIB)
    measure()
    place.runtime.accelerators.fall_silent("gpu-0")
    device_does(place, 1, 40, GIB)
    measure(10)
    assert rows(session, SAMPLE_S) == [(40, GIB), (None, None)]
    mem = KernelMetric.objects.filter(span_s=SAMPLE_S).values_list("mem_bytes", flat=True)
    assert list(mem) == [GIB // 4, GIB // 4]


def test_devices_that_were_not_measured_lately_are_a_hole(
    place: Place, django_assert_num_queries: Any
) -> None:
    session = run_on(place, 0)
    device_does(place, 0, 50, 20 * GIB)
    measure()
    with clock.frozen_at(NOON + timedelta(seconds=40)), django_assert_num_queries(14):
        collector.measure_sessions()  # four statements more than without devices
    assert rows(session, SAMPLE_S) == [(50, 20 * GIB), (None, None)]


def test_charts_have_them_where_there_are_any(place: Place) -> None:
    session, other = run_on(place, 0), place.run()
    device_does(place, 0, 37, 20 * GIB)
    measure_all()
    [told] = session_metrics(with_parts(session), Window.QUARTER)["kernels"]
    assert (told["device_percent"], told["device_mem_bytes"]) == ([37], [20 * GIB])
    limits = {"device_milli": 1000, "device_mem_bytes": TOTAL, "devices_are_shared": False}
    assert told["limits"] == {"cpu_milli": 1000, "mem_bytes": GIB} | limits
    assert current_use(session.kernels.get())["device_percent"] == 37

    ended = with_parts(place.end(session))
    assert session_metrics(ended, Window.QUARTER)["kernels"][0]["limits"]["device_mem_bytes"] == TOTAL
    [without] = session_metrics(with_parts(other), Window.QUARTER)["kernels"]
    unknown = {"device_milli": 0, "device_mem_bytes": None, "devices_are_shared": None}
    assert without["limits"] == {"cpu_milli": 1000, "mem_bytes": GIB} | unknown


# Judged


@pytest.fixture
def began() -> datetime:
    """Now, as the judge has looked and a gateway has reported for a while."""
    now = clock.now()
    with clock.frozen_at(now - timedelta(seconds=20)):
        look()
    return now


@contextmanager
def at(instant: datetime) -> Iterator[None]:
    with clock.frozen_at(instant):
        yield


def look() -> None:
    write_report("web", {}, 0.0)
    enforcer.enforce_idle_limits(clock.now())


def watch(since: datetime, until: datetime) -> None:
    """Rounds of a portal that runs from then to then: it measures each minute, and judges."""
    moment = since
    while moment <= until:
        with at(moment):
            measure_all()
            look()
        moment += timedelta(seconds=55)


def group_has(place: Place, **changes: object) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(**changes)


def judged_use(session: ComputeSession) -> dict[str, int | None]:
    use: dict[str, int | None] = SessionIdle.objects.get(session=session).use
    return use


def test_session_with_unused_devices_is_warned_with_numbers_and_ended(place: Place, began: datetime) -> None:
    group_has(place, **LITTLE, min_device_mem_percent=5)
    session = run_on(place, 0)
    device_does(place, 0, 3, GIB)
    watch(began, began + 26 * MINUTE)
    assert judged_use(session) == {"cpu": 50, "mem": 25, "device": 3, "device_mem": 1}
    outlook = find_next_end(place.fresh(session))
    assert outlook is not None
    assert (outlook.cause, outlook.use) == (
        "use",
        (ResourceUtilization("device", 3, 10), ResourceUtilization("device_mem", 1, 5)),
    )
    said = (
        "Its accelerator utilization is 3 %; the minimum is 10 %."
        " Its accelerator memory utilization is 1 %; the minimum is 5 %."
    )
    with at(began + 26 * MINUTE):
        told = next_end_row(actor_for(place.owner), with_parts(session))
    assert told is not None
    assert told["why"] == f"{said} Once its utilization rises, it goes on."
    watch(began + 26 * MINUTE, began + 36 * MINUTE)
    assert SessionWarning.objects.filter(session=session, cause="use").exists()
    assert notification_text(Notification.objects.filter(person=place.owner).earliest("created_at")).endswith(
        said
    )
    assert place.fresh(session).is_running

    watch(began + 36 * MINUTE, began + 43 * MINUTE)
    assert place.fresh(session).status_reason == Reason.UNDERUSED


@pytest.mark.parametrize(("rule", "ends"), [("all", False), ("any", True)])
def test_all_or_any_of_the_uses_decide(place: Place, began: datetime, rule: str, ends: bool) -> None:
    group_has(place, **LITTLE, min_cpu_percent=10, use_rule=rule)
    session = run_on(place, 0)
    device_does(place, 0, 0)
    watch(began, began + 43 * MINUTE)
    assert place.fresh(session).is_running is not ends


def test_session_on_a_shared_device_is_not_ended_for_its_neighbour(place: Place, began: datetime) -> None:
    group_has(place, **LITTLE)
    sharing, neighbour = run_on(place, 0, gpu=0.5), run_on(place, 0, gpu=0.5)
    device_does(place, 0, 0)
    watch(began, began + 43 * MINUTE)
    for session in (sharing, neighbour):
        assert place.fresh(session).is_running
        assert judged_use(session)["device"] is None
    with at(began + 43 * MINUTE):
        told = next_end_row(actor_for(place.owner), with_parts(sharing))
    assert told is not None
    assert told["unmeasured"].startswith("Its accelerator utilization is not measured")
    assert told["ends_at"] is None


def test_sole_user_of_a_share_is_judged_by_that_share(place: Place, began: datetime) -> None:
    group_has(place, **LITTLE)
    session = run_on(place, 0, gpu=0.1)
    device_does(place, 0, 8, 8 * GIB)
    watch(began, began + 24 * MINUTE)
    assert (judged_use(session)["device"], judged_use(session)["device_mem"]) == (80, 100)
    assert find_next_end(place.fresh(session)).ends_at is None  # type: ignore[union-attr]


@pytest.mark.parametrize("silent", ["from the beginning", "half of the time"])
def test_unmeasured_devices_end_no_session(place: Place, began: datetime, silent: str) -> None:
    group_has(place, **LITTLE)
    session = run_on(place, 0)
    if silent == "half of the time":
        device_does(place, 0, 0)
        watch(began, began + 12 * MINUTE)
        place.runtime.accelerators.fall_silent("gpu-0")
    watch(began + 12 * MINUTE, began + 43 * MINUTE)
    assert place.fresh(session).is_running
    assert not SessionWarning.objects.exists()


def test_computing_device_counts_as_activity(place: Place, began: datetime) -> None:
    group_has(place, max_idle_s=600)
    session = run_on(place, 0, gpu=0.5)
    run_on(place, 0, gpu=0.5)
    device_does(place, 0, 60)
    KernelMetric.objects.all().delete()
    watch(began, began + 14 * MINUTE)
    assert SessionIdle.objects.get(session=session).interaction == "program"
    assert place.fresh(session).is_running


@pytest.mark.parametrize(
    ("cpu", "is_own", "cpu_milli", "is_at_work"),
    [(1, True, 0, True), (1, False, 0, False), (1, False, 10, True), (0.01, False, 9, True)],
)
def test_neighbour_on_a_shared_device_is_no_activity(
    place: Place, began: datetime, cpu: float, is_own: bool, cpu_milli: int, is_at_work: bool
) -> None:
    session = run_on(place, 0, gpu=0.5, cpu=cpu)
    kernel = session.kernels.get()
    KernelUsage.objects.update_or_create(
        kernel=kernel,
        defaults={"at": began, "device_count": 1, "device_milli": 500, "devices_are_own": is_own},
    )
    KernelMetric.objects.filter(kernel=kernel).delete()
    KernelMetric.objects.create(
        kernel=kernel, span_s=MINUTE_S, at=began, cpu_milli=cpu_milli, device_activity=60
    )
    looked_at = [Measurement(session, 5 * MINUTE)]
    assert computing_on_devices(looked_at, began + 2 * MINUTE) == ({session.pk} if is_at_work else set())


def gaudi_does(place: Place, monkeypatch: pytest.MonkeyPatch, mib: int, percent: int) -> None:
    """Replace the machine's first device by a Gaudi that its tool tells this of."""
    vendor = vendor_named("gaudi")
    assert vendor
    AgentDevice.objects.filter(pk=devices_of(place.agent)[0].pk).update(vendor="gaudi", facts={"index": 0})
    [command] = use_probe(vendor).commands
    line = f"0, uuid, HL-325L, 1.20, 131072 MiB, {mib} MiB, 200 W, 40 C, {percent} %"
    report = MachineReport(commands={command_key(command): CommandOutput(exit_code=0, stdout=line)})
    monkeypatch.setattr(
        metering, "measure_simulated", lambda agent, devices: interpret(vendor, devices, report)
    )


@pytest.mark.parametrize(
    ("mib", "percent", "ends"),
    [(100_000, 0, True), (100_000, 90, False), (672, 0, False)],
    ids=["held and idle", "held and at work", "not held: nothing to judge"],
)
def test_a_vendor_whose_frameworks_take_all_memory_is_judged_by_use_where_it_is_held(
    place: Place, began: datetime, monkeypatch: pytest.MonkeyPatch, mib: int, percent: int, ends: bool
) -> None:
    group_has(place, **LITTLE, min_device_mem_percent=5, use_rule="any")
    session = run_on(place, 0)
    gaudi_does(place, monkeypatch, mib, percent)
    watch(began, began + 43 * MINUTE)
    assert place.fresh(session).is_running is not ends
    assert rows(session, SAMPLE_S)[-1][0] == percent


def test_an_instance_of_a_split_device_is_not_judged_by_what_it_does_not_tell(
    place: Place, began: datetime
) -> None:
    group_has(place, **LITTLE)
    session = run_on(place, 0)
    device_does(place, 0, None, 0)
    watch(began, began + 43 * MINUTE)
    assert place.fresh(session).is_running


def test_batch_sessions_leave_devices_unused_unless_the_group_chose_otherwise(
    place: Place, began: datetime
) -> None:
    group_has(place, **LITTLE)
    session = run_on(place, 0, type="batch", command="sleep 1d")
    device_does(place, 0, 0)
    watch(began, began + 24 * MINUTE)
    assert not SessionIdle.objects.filter(session=session).exclude(low_since=None).exists()
    group_has(place, ends_idle_batch=True)
    watch(began + 24 * MINUTE, began + 26 * MINUTE)
    assert SessionIdle.objects.get(session=session).low_since is not None
    assert AgentDevice.objects.filter(agent=place.agent).count() == 2


def test_a_device_that_was_removed_does_not_stop_measuring(place: Place) -> None:
    session = run_on(place, 0)
    AgentDevice.objects.filter(pk=devices_of(place.agent)[0].pk).delete()
    measure()
    measure(SAMPLE_S)
    assert KernelUsage.objects.filter(kernel__session=session).exists()
