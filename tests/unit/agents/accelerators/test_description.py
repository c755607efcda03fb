"""Descriptions of vendors: mistakes are refused with file and line."""

import pytest

from agents.accelerators.description import DescriptionError, parse_description, shipped_vendors, vendor_named
from common.values.resources import SLOT_TITLES

GOOD = """\
name: board
title: Board
slot: board
verified: {by: none, note: "Nothing."}
match: {paths: ["/dev/board[0-9]*"]}
discover:
  nodes: "/dev/board{n}"
  fields:
    index: "{n}|int"
    model: =Board
identify: {by: [index], stable: false}
grant:
  methods:
  - devices: ["/dev/board{index}"]
"""
BAD = {
    # (text, its replacement): (line of the mistake, a part of the message)
    ("title: Board", "titel: Board"): (2, "titel"),
    ("    model: =Board", "    model: =Board|upper"): (10, "unknown filter “upper”"),
    ('"{n}|int"', '"{n}|sub"'): (9, "needs an argument"),
    ('"{n}|int"', '"{m}|int"'): (9, "no {m}"),
    ('board{index}"', 'board{number}"'): (14, "no field “number”"),
    ("by: [index]", "by: [serial]"): (11, "no field “serial”"),
    ('methods:\n  - devices: ["/dev/board{index}"]', "methods:\n  - {devices: [/dev/x], when: sometimes}"): (14, "sometimes"),
    ("/dev/board{n}", "/dev/../etc/{n}"): (7, "without “..”"),
    ("slot: board", "slot: board\nslot: card"): (4, "twice"),
    ("slot: board", "slot: [board"): (4, ""),
}  # fmt: skip


def test_a_mistake_is_refused_with_its_line(subtests: pytest.Subtests) -> None:
    assert parse_description(GOOD, "board.yaml").fields == {"index", "model"}
    for (text, replacement), (line, message) in BAD.items():
        with subtests.test(replacement):
            assert text in GOOD
            with pytest.raises(DescriptionError) as refused:
                parse_description(GOOD.replace(text, replacement), "board.yaml")
            assert str(refused.value).startswith(f"board.yaml:{line}: ")
            assert message in str(refused.value)


def test_shipped_descriptions_are_valid_and_found_by_name() -> None:
    vendors = shipped_vendors()
    assert (
        len({vendor.name for vendor in vendors}) == len({vendor.slot for vendor in vendors}) == len(vendors)
    )
    assert {vendor.slot for vendor in vendors} == set(SLOT_TITLES), "each has a name for people"
    for vendor in vendors:
        assert vendor_named(vendor.name) is vendor
