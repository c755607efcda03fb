"""No attack of a hostile session succeeds, and each succeeds without its protection."""

from collections.abc import Iterator

import pytest

from tests.docker.hostile.pressure import HELD, PRESSURES, THROUGH, Pressure
from tests.docker.hostile.stage import Stage
from tests.docker.hostile_session import run_attacks

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("data")) as stage:
        yield stage


def test_no_attack_succeeds_and_each_would_without_its_protection(stage: Stage) -> None:
    outcomes = list(run_attacks(stage))
    assert [each for each in outcomes if not each.is_held] == []
    # What a kernel has not, or a machine does not let even root do, cannot be shown on it.
    assert [each for each in outcomes if not each.is_proven and not each.is_moody] == []


@pytest.mark.parametrize("pressure", PRESSURES, ids=lambda pressure: pressure.name)
def test_session_alone_suffers_from_what_it_does(stage: Stage, pressure: Pressure) -> None:
    verdict, seen = pressure.run(stage, True)
    assert verdict == HELD, seen
    verdict, seen = pressure.run(stage, False)
    assert verdict == THROUGH, f"it proves nothing: {seen}"
