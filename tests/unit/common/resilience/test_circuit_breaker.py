"""A hanging dependency delays one caller; the circuit breaker spares the others."""

import threading

import pytest

from common.resilience import circuit_breaker
from common.resilience.circuit_breaker import Circuit, Outage


class Patient:
    """Answers, or waits until it is let go and then does not."""

    def __init__(self) -> None:
        self.is_well = True
        self.asked = 0
        self.is_waiting = threading.Event()
        self.let_go = threading.Event()

    def ask(self) -> None:
        self.asked += 1
        if not self.is_well:
            self.is_waiting.set()
            assert self.let_go.wait(30)
            raise TimeoutError("no answer within 3 s")


@pytest.fixture
def patient() -> Patient:
    return Patient()


@pytest.fixture
def circuit(patient: Patient) -> Circuit:
    return Circuit(patient.ask, (TimeoutError,))


def test_what_answered_just_now_is_not_asked_first(circuit: Circuit, patient: Patient) -> None:
    for _ in range(3):
        circuit.check_answer()
    assert patient.asked == 1


def test_silence_is_waited_for_once(
    circuit: Circuit, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circuit_breaker, "QUICK_S", 0)
    patient.is_well = False
    refused: list[str] = []

    def ask() -> None:
        try:
            circuit.check_answer()
        except Outage as outage:
            refused.append(str(outage))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert patient.is_waiting.wait(30)
    patient.let_go.set()
    for thread in threads:
        thread.join(30)
    assert refused == ["no answer within 3 s"] * 5
    assert patient.asked == 1


def test_fast_refusal_allows_an_immediate_retry(circuit: Circuit, patient: Patient) -> None:
    patient.is_well = False
    patient.let_go.set()
    with pytest.raises(Outage):
        circuit.check_answer()
    patient.is_well = True
    circuit.check_answer()


def test_after_a_failed_call_the_next_one_asks_first(circuit: Circuit, patient: Patient) -> None:
    circuit.check_answer()
    circuit.doubt()
    circuit.check_answer()
    assert patient.asked == 2


def test_it_is_tried_again_after_a_while(
    circuit: Circuit, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit.note_silence("it hung")
    with pytest.raises(Outage, match="it hung"):
        circuit.check_answer()
    monkeypatch.setattr(circuit_breaker, "RETRIED_AFTER_S", 0)
    circuit.check_answer()
    assert patient.asked == 1


def test_an_answer_ends_the_outage(circuit: Circuit, patient: Patient) -> None:
    circuit.note_silence("")
    circuit.note_answer()
    circuit.check_answer()
    assert patient.asked == 0
