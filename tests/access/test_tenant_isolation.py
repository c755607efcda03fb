"""Hidden objects of other tenants answer like absent ones, on every route."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from common import clock
from tests.access.crossing import HIDEABLE, Crossing, far_ids, make_crossing
from tests.access.world import make_world

SAMPLE = 200
NOT_FOUND = 404
SEED = 5


@pytest.fixture
def crossing(db: None, patient_portal: None, tmp_path: Path) -> Crossing:
    far_ids()
    return make_crossing(make_world(tmp_path))


@pytest.mark.walk
@pytest.mark.timeout(300)
def test_hidden_things_answer_like_absent_ones_whatever_is_asked(crossing: Crossing) -> None:
    """The ten thousand of `bin/bench tenants` begin with these."""
    random = Random(SEED)
    with clock.frozen_at(clock.now()):
        pairs = [
            crossing.ask(attempt, hidden_first=number % 2 == 0)
            for number, attempt in enumerate(islice(crossing.attempts(random), SAMPLE))
        ]
    assert not [f"{pair.attempt}\n{pair.hidden}\n{pair.absent}" for pair in pairs if pair.leaks]
    assert not [str(pair.attempt) for pair in pairs if pair.hidden.queries != pair.absent.queries]
    assert {pair.attempt.column for pair in pairs} == set(crossing.blind_to)
    assert set(crossing.hidden) >= HIDEABLE
    assert sum(pair.hidden.status == NOT_FOUND for pair in pairs) > SAMPLE // 5
