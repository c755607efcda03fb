"""Unexpected and late answers of engines to a heartbeat."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from agents.machines import observation, service
from agents.machines.observation import Observation, observe_all
from agents.models import Agent
from agents.runtime.port import EngineInfo, ImageInfo, RuntimeRefused, RuntimeUnavailable
from agents.runtime.simulated.runtime import SimulatedRuntime
from tests.factories_sessions import make_place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def image(image_id: str, *references: str) -> ImageInfo:
    return ImageInfo(
        image_id=image_id,
        references=references,
        size_bytes=1,
        labels={},
        architecture="x86_64",
        created_at=None,
    )


def test_strange_image_names_do_not_stop_heartbeats() -> None:
    place = make_place()
    long_name = f"registry.example/{'a/' * 100}b@sha256:{'0' * 64}"
    seen = Observation(
        place.runtime.info(), (image("one", "berth/a:1", long_name), image("two", "berth/a:1"))
    )

    service.record_heartbeat(place.agent.pk, seen)
    service.record_heartbeat(place.agent.pk, seen)

    assert [row.reference for row in place.agent.images.all()] == ["berth/a:1"]


def test_name_that_means_another_image_now_is_known_as_such() -> None:
    place = make_place()
    for image_id in ("one", "two"):
        seen = Observation(place.runtime.info(), (image(image_id, "berth/a:1"),))
        service.record_heartbeat(place.agent.pk, seen)
    assert [row.image_id for row in place.agent.images.all()] == ["two"]


def test_engine_that_reports_more_than_a_machine_has_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_place().runtime
    endless = [image(str(number), f"a:{number}") for number in range(observation.MOST_IMAGES + 1)]
    monkeypatch.setattr(engine, "list_images", lambda: endless)
    with pytest.raises(RuntimeRefused):
        observation.observe(engine)
    monkeypatch.setattr(engine, "list_images", list)
    facts = replace(engine.info(), runtimes=("x" * observation.MOST_FACTS,))
    monkeypatch.setattr(engine, "info", lambda: facts)
    with pytest.raises(RuntimeRefused):
        observation.observe(engine)


class PausedRuntime(SimulatedRuntime):
    """Answers once `goes_on` is set."""

    goes_on = Event()

    def info(self) -> EngineInfo:
        self.goes_on.wait(30)
        return super().info()


@pytest.fixture
def paused_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """An agent that does not answer yet, asked by the only thread there is."""
    place = make_place()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(observation, "_observers", pool)
        PausedRuntime.goes_on = Event()
        place.replace_runtime(PausedRuntime)
        yield place.agent
        PausedRuntime.goes_on.set()
    observation._under_way.clear()


def test_answer_that_comes_late_is_told_once_when_it_comes(paused_agent: Agent) -> None:
    late = list[tuple[Agent, Observation]]()

    def observed() -> list[type]:
        found = observe_all([paused_agent], within_s=0.02, on_late=lambda *each: late.append(each))
        return [type(answer) for _agent, answer in found]

    assert [observed(), observed()] == [[RuntimeUnavailable], [RuntimeUnavailable]]
    PausedRuntime.goes_on.set()
    wait_until(lambda: len(late) == 1)
    assert late[0][0] == paused_agent


def test_agent_whose_turn_did_not_come_is_not_taken_for_silent(paused_agent: Agent) -> None:
    well = make_place().agent
    seen = observe_all([paused_agent, well], within_s=0.02, on_late=lambda *_: None)
    assert [agent for agent, _answer in seen] == [paused_agent]
