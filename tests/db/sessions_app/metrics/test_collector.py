"""Metrics of sessions are collected, retained as promised, and missing where they are unknown."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from agents.machines import observation
from agents.runtime.usage import ContainerUsage
from common import clock
from sessions_app.metrics import collector
from sessions_app.metrics.collector import MINUTE_S, QUARTER_S, SAMPLE_S
from sessions_app.metrics.history import MAX_POINTS, Window, current_use, session_metrics
from sessions_app.models import ComputeSession, Kernel, KernelMetric, KernelUsage
from sessions_app.tasks import measure_sessions
from tests.doubles.runtimes import LostRuntime
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GIB = 2**30


def kernel_of(session: ComputeSession) -> Kernel:
    kernel: Kernel = session.kernels.get()
    return kernel


def use(place: Place, session: ComputeSession, second: float, **counters: int) -> None:
    """Have the session's container have used this much `second` seconds after noon, and measure it then."""
    instant = NOON + timedelta(seconds=second)
    place.runtime.use(kernel_of(session).container_name, ContainerUsage(at=instant, **counters))
    with clock.frozen_at(instant):
        collector.measure_sessions()


def rows(session: ComputeSession, span_s: int) -> list[KernelMetric]:
    return list(KernelMetric.objects.filter(kernel__session=session, span_s=span_s).order_by("at"))


def with_parts(session: ComputeSession) -> ComputeSession:
    found: ComputeSession = ComputeSession.objects.with_parts().get(pk=session.pk)
    return found


def test_two_readings_make_rates(place: Place) -> None:
    session = place.run()
    use(
        place,
        session,
        0,
        cpu_ns=10**9,
        mem_bytes=GIB,
        net_received_bytes=0,
        net_sent_bytes=500,
        disk_read_bytes=0,
    )
    use(place, session, 10, cpu_ns=6 * 10**9, mem_bytes=2 * GIB, net_received_bytes=1000, net_sent_bytes=400)

    first, second = rows(session, SAMPLE_S)
    assert [getattr(first, name) for name in collector.SERIES] == [None, GIB] + [None] * 7
    # What was sent went back: its container began anew. What the disks did was not told.
    assert [getattr(second, name) for name in collector.SERIES] == [500, 2 * GIB, 100] + [None] * 6
    assert KernelUsage.objects.get().cpu_ns == 6 * 10**9


def test_a_minute_has_means_and_the_most(place: Place) -> None:
    session = place.run()
    for second, cpu_ns in ((0, 0), (10, 10**9), (20, 4 * 10**9), (60, 4 * 10**9)):
        use(place, session, second, cpu_ns=cpu_ns, mem_bytes=second * 10)

    first, second_minute = rows(session, MINUTE_S)
    assert (first.at, first.cpu_milli, first.cpu_milli_max) == (NOON, 200, 300)
    assert (first.mem_bytes, first.mem_bytes_max) == (100, 200)
    assert (second_minute.cpu_milli, second_minute.mem_bytes) == (0, 600)


def test_samples_go_after_an_hour_and_minutes_of_a_running_session_become_quarters_after_a_day(
    place: Place,
) -> None:
    session = place.run()
    ComputeSession.objects.filter(pk=session.pk).update(started_at=NOON)
    ended = place.run()
    for second, cpu_ns in ((0, 0), (10, 10**10), (70, 10**10)):
        use(place, session, second, cpu_ns=cpu_ns)
    place.end(ended)
    kept = len(rows(ended, MINUTE_S))

    with clock.frozen_at(NOON + timedelta(hours=2)):
        collector.measure_sessions()
    assert [row.at for row in rows(session, SAMPLE_S)] == [NOON + timedelta(hours=2)]
    assert len(rows(session, MINUTE_S)) == 3

    with clock.frozen_at(NOON + timedelta(days=1, hours=1)):
        collector.measure_sessions()
    [quarter] = rows(session, QUARTER_S)
    assert (quarter.at, quarter.cpu_milli, quarter.cpu_milli_max) == (NOON, 500, 1000)
    assert [row.at for row in rows(session, MINUTE_S)] == [
        NOON + timedelta(hours=2),
        NOON + timedelta(days=1, hours=1),
    ]
    assert len(rows(ended, MINUTE_S)) == kept > 0


def test_what_goes_with_a_session_goes_with_its_rows(place: Place) -> None:
    session = place.run()
    use(place, session, 0, mem_bytes=1)
    place.end(session).delete()
    assert not KernelMetric.objects.exists()
    assert not KernelUsage.objects.exists()


def test_a_machine_that_is_lost_or_a_container_that_is_gone_ends_nothing(place: Place) -> None:
    place.replace_runtime(LostRuntime)
    there, gone = place.run(), place.run()
    place.runtime.finish(kernel_of(gone).container_name)
    measure_sessions()
    assert [len(rows(session, SAMPLE_S)) for session in (there, gone)] == [1, 0]

    place.runtime.is_lost = True  # type: ignore[attr-defined]
    measure_sessions()
    assert len(rows(there, SAMPLE_S)) == 1
    assert place.fresh(there).is_running


def test_a_machine_that_hangs_holds_up_no_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "ROUND_S", 0.5)
    hanging, session = place.run(), make_place().run()
    place.runtime.delay_s = 60
    collector.measure_sessions()
    assert len(rows(session, SAMPLE_S)) == 1
    assert not rows(hanging, SAMPLE_S)


def test_a_slow_engine_is_asked_first_about_those_it_did_not_answer_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "ROUND_S", 0.5)
    monkeypatch.setattr(observation, "MEASURED_AT_ONCE", 1)
    monkeypatch.setattr(observation, "LEAST_AT_ONCE", 1)
    sessions = [place.run(), place.run()]
    place.runtime.delay_s = 0.4
    for _round in range(2):
        collector.measure_sessions()
    assert [len(rows(session, SAMPLE_S)) for session in sessions] == [1, 1]


def test_what_was_not_measured_for_a_minute_is_logged_once_a_minute_and_told_with_its_charts(
    place: Place,
) -> None:
    session = place.run()
    collector.measure_sessions()
    measured_at = rows(session, SAMPLE_S)[0].at
    place.runtime.finish(kernel_of(session).container_name)  # and nobody noticed yet

    with capture_logs() as logged:
        for second in (59, 61, 71):
            with clock.frozen_at(measured_at + timedelta(seconds=second)):
                collector.measure_sessions()
    [line] = [each for each in logged if each["event"] == "metrics.unmeasured"]
    assert (line["agent"], line["kernels"]) == (place.agent.name, 1)

    ComputeSession.objects.filter(pk=session.pk).update(started_at=measured_at)
    with clock.frozen_at(measured_at + timedelta(seconds=61)):
        assert session_metrics(with_parts(session), Window.HOUR)["unmeasured_since"] == measured_at
        place.end(session)
        assert session_metrics(with_parts(session), Window.HOUR)["unmeasured_since"] is None


def test_a_round_takes_the_same_number_of_statements_whatever_the_number_of_sessions(
    place: Place, django_assert_num_queries: Any
) -> None:
    for _ in range(2):
        place.run()
        # Kernels, devices, begin and end, samples, counters, minutes, begin and end, old samples, long sessions,
        # unmeasured ones.
        with django_assert_num_queries(12):
            collector.measure_sessions()


def test_charts_have_samples_of_the_last_hour_and_minutes_of_the_rest(place: Place) -> None:
    session = place.run()
    now = clock.now()
    ComputeSession.objects.filter(pk=session.pk).update(started_at=now - timedelta(hours=20))
    kernel = kernel_of(session)
    minutes = [
        KernelMetric(
            kernel=kernel,
            span_s=MINUTE_S,
            at=now - timedelta(minutes=ago),
            cpu_milli=ago,
            cpu_milli_max=2 * ago,
        )
        for ago in range(20 * 60)
    ]
    KernelMetric.objects.bulk_create(minutes)
    collector.measure_sessions()

    hour, everything = (session_metrics(with_parts(session), window) for window in (Window.HOUR, Window.ALL))
    assert hour["step_s"] == SAMPLE_S
    [told] = hour["kernels"]
    assert (told["name"], told["limits"]["cpu_milli"], told["limits"]["mem_bytes"]) == ("main1", 1000, GIB)
    assert (told["mem_bytes"], told["cpu_milli"]) == ([GIB // 4], [None])
    [whole] = everything["kernels"]
    assert everything["step_s"] == 4 * MINUTE_S
    assert 290 < len(whole["at"]) <= MAX_POINTS
    assert whole["at"] == sorted(whole["at"])
    assert whole["cpu_milli_max"][0] > whole["cpu_milli"][0]


def test_a_session_that_ended_long_ago_shows_its_last_minutes(place: Place) -> None:
    session = place.run()
    measure_sessions()
    place.end(session)
    with clock.frozen_at(clock.now() + timedelta(hours=3)):
        collector.measure_sessions()
        told = session_metrics(with_parts(session), Window.QUARTER)
        assert current_use(session.kernels.get()) == {}
    assert told["step_s"] == MINUTE_S
    assert told["kernels"][0]["mem_bytes"] == [GIB // 4]


def test_a_session_that_has_not_begun_has_no_points(place: Place) -> None:
    assert session_metrics(with_parts(place.enqueue()), Window.ALL)["kernels"][0]["at"] == []
