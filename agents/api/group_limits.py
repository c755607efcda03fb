"""Serializers of the limits of a resource group."""

from typing import Any

from rest_framework import serializers

from accounts.api.policy_serializers import AmountsField
from agents.core.group_limits import LONGEST_NAME, WEEK
from agents.models import SessionType
from common.rest.input import InputSerializer, TextField
from common.values.resources import MAX_AMOUNT
from common.values.time_zones import LONGEST_ZONE

SESSION_TYPES = list(SessionType.values)
LONGEST_TIME = len("08:00")
LIMITS = "Limits for all its sessions together and per person there, always or at certain hours of the week."
_TYPES = "Which sessions it counts; none named: all."
_TOGETHER = "Limit for all sessions together"
_EACH = "Limit per person"
_DAYS = "1 is Monday, 7 Sunday; none, with neither times nor a time zone: it holds always."
_BEGINS = "When it begins to hold on these days, like 08:00."
_ENDS = "When it ceases to; what is not after the beginning is on the next day."
_ZONE = "By whose clocks, like Europe/Berlin or UTC."


def _amounts_told(help_text: str) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.IntegerField(max_value=MAX_AMOUNT),
        help_text=f"{help_text}, in base units; of what is not named as much as there is.",
    )


def _amounts_taken(help_text: str) -> AmountsField:
    return AmountsField(
        help_text=f"{help_text}, as {{cpu: cores, mem: “64g”, cuda: devices}}; of what is not named as much as there is."
    )


class GroupLimitOut(serializers.Serializer[Any]):
    """A limit of a resource group. It is always in force if it has no days."""

    name = serializers.CharField()
    session_types = serializers.ListField(
        child=serializers.ChoiceField(choices=SESSION_TYPES), help_text=_TYPES
    )
    together = _amounts_told(_TOGETHER)
    each = _amounts_told(_EACH)
    days = serializers.ListField(child=serializers.IntegerField(), help_text=_DAYS)
    begins = serializers.CharField(help_text=_BEGINS)
    ends = serializers.CharField(help_text=_ENDS)
    time_zone = serializers.CharField(help_text=_ZONE)


class GroupLimitInput(InputSerializer):
    """A limit of a resource group: for all its sessions together, for those of each user, or both."""

    name = TextField(max_length=LONGEST_NAME, help_text="By which it is told from the others of its group.")
    session_types = serializers.ListField(
        child=serializers.ChoiceField(choices=SESSION_TYPES),
        required=False,
        max_length=len(SESSION_TYPES),
        help_text=_TYPES,
    )
    together = _amounts_taken(_TOGETHER)
    each = _amounts_taken(_EACH)
    days = serializers.ListField(
        child=serializers.IntegerField(min_value=WEEK[0], max_value=WEEK[-1]),
        required=False,
        max_length=len(WEEK),
        help_text=_DAYS,
    )
    begins = TextField(max_length=LONGEST_TIME, required=False, allow_blank=True, help_text=_BEGINS)
    ends = TextField(max_length=LONGEST_TIME, required=False, allow_blank=True, help_text=_ENDS)
    time_zone = TextField(max_length=LONGEST_ZONE, required=False, allow_blank=True, help_text=_ZONE)
