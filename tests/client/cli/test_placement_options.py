"""Options of the command line for placement groups."""

import pytest

from berth.cli.launch_options import placement_rule_name
from berth.errors import InvalidInput


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, ""),
        ({"spread": True}, "spread"),
        ({"pack": True}, "pack"),
        ({"spread": True, "strict": True}, "strict_spread"),
        ({"pack": True, "strict": True}, "strict_pack"),
    ],
)
def test_options_mean_a_rule(options: dict[str, bool], rule: str) -> None:
    assert placement_rule_name(**{"spread": False, "pack": False, "strict": False, **options}) == rule


@pytest.mark.parametrize("options", [{"spread": True, "pack": True}, {"strict": True}])
def test_what_means_none_is_refused(options: dict[str, bool]) -> None:
    with pytest.raises(InvalidInput, match="--pack"):
        placement_rule_name(**{"spread": False, "pack": False, "strict": False, **options})
