"""Placement groups in requests: names, and rules for placing a session relative to others. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from common.i18n import gettext as _
from common.i18n import gettext_noop
from common.values.text import quoted


class PlacementRule(StrEnum):
    """Placement of a session relative to the others of its placement group or array."""

    SPREAD = "spread"  # on a machine with the fewest of them that has room
    PACK = "pack"  # on a machine with some of them, if one has room
    STRICT_SPREAD = "strict_spread"  # on a machine with none of them, else it waits
    STRICT_PACK = "strict_pack"  # on a machine with some of them, else it waits; the first one anywhere

    @property
    def words(self) -> str:
        return _(_WORDS[self])


class Gang(StrEnum):
    """Placement of the containers of one session."""

    ANYWHERE = "anywhere"
    ONE_MACHINE = "one_machine"
    SPREAD = "spread"  # each on a different machine


_WORDS = {
    PlacementRule.SPREAD: gettext_noop("spread if possible"),
    PlacementRule.PACK: gettext_noop("pack if possible"),
    PlacementRule.STRICT_SPREAD: gettext_noop("spread strictly"),
    PlacementRule.STRICT_PACK: gettext_noop("pack strictly"),
}


def check_placement_rule(value: object) -> str:
    """Return a placement rule, or "" for none. Raises ValueError."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or value not in list(PlacementRule):
        sentence = _("{rule} is no rule of a placement group. Use {rules}.")
        raise ValueError(sentence.format(rule=quoted(value), rules=", ".join(PlacementRule)))
    return value


def check_placement_combinations(request: Mapping[str, Any], problems: dict[str, list[str]]) -> None:
    """Add to `problems` a rule without a placement group, and a placement group without a rule."""
    group, rule = request["placement_group"], request["placement_rule"]
    if rule and group == "" and request["array"] is None and "array" not in problems:
        sentence = _(
            "Name the placement group: the sessions from which it is spread, or with which it is packed."
        )
        problems.setdefault("placement_rule", [sentence])
    if group and rule == "":
        sentence = _("Choose how it is placed in its placement group: {rules}.")
        problems.setdefault("placement_group", [sentence.format(rules=", ".join(PlacementRule))])


def placement_key(project_id: int, owner_id: int, name: str) -> str:
    """Return the scheduler's key of a placement group of one owner in one project.

    SQL statements build the same text.
    """
    return f"{project_id}:{owner_id}:{name}"


def placement_label(rule: str, group: str, array: str) -> str:
    """Return text like «spread strictly: sweep»; "" without a rule.

    `array` is the name of the session's array, used if no placement group is named.
    """
    return f"{PlacementRule(rule).words}: {group or array}" if rule else ""
