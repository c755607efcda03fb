"""Backlogs, slow receivers and clock jumps delay no other callbacks."""

import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from common import clock
from sessions_app.callbacks import delivery as callbacks_delivery
from sessions_app.callbacks.delivery import deliver_callbacks
from sessions_app.callbacks.http_post import Answer
from sessions_app.callbacks.signing_secret import make_callback_secret
from sessions_app.core.callbacks import Fault
from sessions_app.models import CallbackDelivery, ComputeSession
from sessions_app.reconciler import clock_change
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]
Letter = tuple[str, bytes, dict[str, str]]


@pytest.fixture
def place() -> Place:
    return place_that_tells()


def place_that_tells() -> Place:
    place = make_place()
    make_callback_secret(actor=actor_for(place.owner))
    return place


def ended(place: Place, host: str) -> ComputeSession:
    """One that has something to tell there."""
    session = place.enqueue(callback_url=f"http://{host}.example/")
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    return session


class Receivers:
    """Stand for all hosts: who is told is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.most: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._lock = threading.Lock()
        monkeypatch.setattr(callbacks_delivery, "_send", self.send)

    def send(self, letter: Letter) -> Answer:
        host = letter[0].removeprefix("http://").removesuffix(".example/")
        kind = host.rstrip("0123456789")
        with self._lock:
            self._now[kind] += 1
            self.most[kind] = max(self.most[kind], self._now[kind])
        answer = self.answer(host)
        with self._lock:
            self._now[kind] -= 1
            self.told.append(host)
        return answer

    def answer(self, host: str) -> Answer:
        return Answer(200)


class WaitingReceivers(Receivers):
    """Those called "slow" answer when so many others were told, or never."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
        super().__init__(monkeypatch)
        self.left = others
        self.all_told = threading.Event()

    def answer(self, host: str) -> Answer:
        if host.startswith("slow"):
            return Answer(200) if self.all_told.wait(10) else Answer(fault=Fault.TIMEOUT)
        with self._lock:
            self.left -= 1
            if not self.left:
                self.all_told.set()
        return Answer(200)


def test_backlog_of_one_host_delays_no_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(20):
        ended(place, "dead")
    ended(place, "mine")
    ended(place_that_tells(), "quick")
    Receivers(monkeypatch)
    callbacks_delivery._create_deliveries()
    hosts = Counter(each.callback.host for each in callbacks_delivery._next_batch())
    assert hosts == {"dead.example": 2, "mine.example": 1, "quick.example": 1}


def test_a_backlog_of_one_domain_hides_no_news_of_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks_delivery, "MAX_NEW_PER_DOMAIN", 3)
    backlog = [ended(place, "dead").pk for _ in range(9)]
    quick = ended(place_that_tells(), "quick").pk
    for noted in (3, 6, 9):
        callbacks_delivery._create_deliveries()
        told = CallbackDelivery.objects.order_by("transition_id").values_list("callback", flat=True)
        assert list(told) == [*backlog[:noted], quick]


def test_a_session_whose_news_are_noted_in_parts_tells_them_in_their_order(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks_delivery, "MAX_NEW_PER_DOMAIN", 1)
    session = place.run(callback_url="http://mine.example/")
    place.end(session)
    told = []
    for _ in range(2):
        callbacks_delivery._create_deliveries()
        batch = callbacks_delivery._next_batch()
        told += [each.news for each in batch]
        callbacks_delivery._settle(batch[0], Answer(200))
    assert told == ["session.started", "session.ended"]


def test_deliveries_added_during_a_round_are_sent_in_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks_delivery, "CREATE_EVERY_S", 0)
    other = place_that_tells()
    ended(place, "first")
    receivers = Receivers(monkeypatch)
    settle = callbacks_delivery._settle

    def settle_while_another_ends(delivery: CallbackDelivery, answer: Answer) -> None:
        settle(delivery, answer)
        if len(receivers.told) == 1:
            ended(other, "second")

    monkeypatch.setattr(callbacks_delivery, "_settle", settle_while_another_ends)
    deliver_callbacks()
    assert receivers.told == ["first", "second"]


def test_domain_above_its_rate_delays_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.BERTH_CALLBACKS_PER_MINUTE = 3
    for number in range(20):
        ended(place, f"many{number}")
    ended(place_that_tells(), "quick")
    receivers = Receivers(monkeypatch)
    deliver_callbacks()
    kinds = Counter(host.rstrip("0123456789") for host in receivers.told)
    assert kinds == {"many": 3, "quick": 1}


def test_a_receiver_that_is_slow_holds_up_no_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(place, "slow")
    for number in range(39):
        ended(place, f"quick{number}")
    receivers = WaitingReceivers(monkeypatch, others=39)
    deliver_callbacks()
    assert receivers.told[-1] == "slow"
    assert set(CallbackDelivery.objects.values_list("state", flat=True)) == {"delivered"}
    assert len(receivers.told) == 40


def test_one_domain_never_holds_every_place(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(16):
        ended(place, f"slow{number}")
    other = place_that_tells()
    for number in range(10):
        ended(other, f"quick{number}")
    receivers = WaitingReceivers(monkeypatch, others=10)
    deliver_callbacks()
    assert receivers.most["slow"] == 8
    assert set(CallbackDelivery.objects.values_list("state", flat=True)) == {"delivered"}


def test_a_delivery_that_is_gone_stops_no_round(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [ended(place, f"quick{number}") for number in range(3)]
    receivers = Receivers(monkeypatch)
    real = callbacks_delivery._put_off

    def put_off(batch: list[CallbackDelivery]) -> None:
        real(batch)
        CallbackDelivery.objects.filter(callback=sessions[0].pk).delete()

    monkeypatch.setattr(callbacks_delivery, "_put_off", put_off)
    deliver_callbacks()
    assert len(receivers.told) == 3
    assert list(CallbackDelivery.objects.values_list("state", flat=True)) == ["delivered"] * 2


def test_what_is_on_its_way_is_not_sent_a_second_time(place: Place) -> None:
    ended(place, "slow")
    callbacks_delivery._create_deliveries()
    batch = callbacks_delivery._next_batch()
    callbacks_delivery._put_off(batch)
    CallbackDelivery.objects.update(due_at=clock.now())  # it took longer than it was put off
    assert callbacks_delivery._next_batch(batch) == []
    assert [each.pk for each in callbacks_delivery._next_batch()] == [batch[0].pk]  # whoever sent it died


def test_late_failure_repeats_no_delivery(place: Place) -> None:
    ended(place, "slow")
    callbacks_delivery._create_deliveries()
    first, second = callbacks_delivery._next_batch(), callbacks_delivery._next_batch()
    callbacks_delivery._settle(first[0], Answer(200))
    callbacks_delivery._settle(second[0], Answer(fault=Fault.TIMEOUT))
    kept = CallbackDelivery.objects.get()
    assert (kept.state, kept.answer) == ("delivered", 200)


@pytest.mark.parametrize("step", [timedelta(hours=5), timedelta(hours=-5)], ids=["ahead", "back"])
def test_callbacks_go_on_when_the_clock_is_set(
    place: Place, step: timedelta, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.BERTH_CALLBACKS_PER_MINUTE = 1
    receivers = Receivers(monkeypatch)
    monkeypatch.setattr(receivers, "answer", lambda host: Answer(200 if host == "good" else 500))
    clock_change.handle_clock_jump()
    begun = clock.clock_offset()
    ended(place, "good")
    deliver_callbacks()
    bad = ended(place, "bad")
    callbacks_delivery._create_deliveries()
    waits = CallbackDelivery.objects.get(callback=bad.pk)

    monkeypatch.setattr(clock, "clock_offset", lambda: begun + step.total_seconds())
    with clock.frozen_at(clock.now() + step):
        clock_change.handle_clock_jump()
        assert callbacks_delivery._next_batch() == []  # a minute has not gone by
        moved = CallbackDelivery.objects.get(pk=waits.pk)
        for name in ("made_at", "due_at"):
            by = getattr(moved, name) - getattr(waits, name)
            assert abs(by - step) < timedelta(seconds=1), name
    with clock.frozen_at(clock.now() + step + timedelta(seconds=61)):
        deliver_callbacks()
    assert receivers.told == ["good", "bad"]
    assert CallbackDelivery.objects.get(pk=waits.pk).state == "waiting"


def test_deliveries_with_future_timestamps_do_not_count_for_the_rate(
    place: Place, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.BERTH_CALLBACKS_PER_MINUTE = 1
    receivers = Receivers(monkeypatch)
    with clock.frozen_at(clock.now() + timedelta(hours=5)):
        ended(place, "good")
        deliver_callbacks()
    ended(place, "late")
    deliver_callbacks()
    assert receivers.told == ["good", "late"]
