"""REST of session metrics."""

import pytest

from sessions_app.metrics import collector
from sessions_app.metrics.collector import SERIES
from tests.factories import api_client
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db(transaction=True)


def test_series_are_as_long_as_their_instants() -> None:
    place = make_place()
    session = place.run()
    collector.measure_sessions()
    client = api_client(place.owner)

    for query in ("", "?window=15m", "?window=1h", "?window=all"):
        told = client.get(f"/api/v1/sessions/{session.pk}/metrics/{query}").json()
        [kernel] = told["kernels"]
        assert told["step_s"] == 10
        unknown = {"device_milli": 0, "device_mem_bytes": None, "devices_are_shared": None}
        assert kernel["limits"] == {"cpu_milli": 1000, "mem_bytes": 2**30} | unknown
        assert kernel["mem_bytes"] == [2**28]
        assert {len(kernel[name]) for series in SERIES for name in (series, f"{series}_max")} == {1}


def test_another_window_is_refused_with_those_that_there_are() -> None:
    place = make_place()
    answer = api_client(place.owner).get(f"/api/v1/sessions/{place.run().pk}/metrics/?window=2h")
    assert answer.status_code == 400
    assert answer.json()["fields"] == {"window": ["“2h” is no window. Give 15m, 1h or all."]}


def test_an_empty_window_is_refused() -> None:
    place = make_place()
    answer = api_client(place.owner).get(f"/api/v1/sessions/{place.run().pk}/metrics/?window=")
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {"window"})
