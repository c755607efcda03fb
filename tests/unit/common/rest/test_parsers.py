"""JSON bodies are parsed strictly and at bounded cost."""

import io
import time

import pytest

from common.errors import InvalidInput
from common.rest.parsers import StrictJSONParser


def parse(body: str) -> object:
    return StrictJSONParser().parse(io.BytesIO(body.encode()))


def seconds_for(name: str) -> float:
    body = f'{{"{name}": [{",".join("0" * 50_000)}]}}'
    before = time.process_time()
    parse(body)
    return time.process_time() - before


def test_a_long_name_costs_nothing_for_each_value_below_it() -> None:
    short = min(seconds_for("a") for _again in range(3))
    assert min(seconds_for("a" * 1_000_000) for _again in range(3)) < 10 * short


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (r'{"mounts": [0, {"path": "\u0000"}]}', "mounts.1.path"),
        (r'[["\u0000"]]', "0.0"),
        (r'{"a": {"b\u0000": 1}}', "a.b�"),
        (r'"\u0000"', ""),
    ],
)
def test_a_refused_text_is_named_by_its_place(body: str, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(body)
    assert list(refused.value.fields) == [place]
