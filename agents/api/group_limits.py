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
LIMITS = (
    "Limits for all sessions of the group together and for each user, in force always "
    "or at certain hours of the week."
)
_TYPES = "Types of sessions to which the limit applies; empty: all."
_TOGETHER = "Limit for all sessions together"
_EACH = "Limit for each user"
_DAYS = (
    "Days on which the limit is in force: 1 (Monday) to 7 (Sunday). Empty, without "
    "times and time zone: always."
)
_BEGINS = "Time at which the limit begins on these days, e.g. 08:00."
_ENDS = "Time at which the limit ends; on the next day if it is not after the beginning."
_ZONE = "Time zone of the times, e.g. Europe/Berlin or UTC."


def _amounts_told(help_text: str) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.IntegerField(max_value=MAX_AMOUNT),
        help_text=f"{help_text}, in base units; slots that are not named are unlimited.",
    )


def _amounts_taken(help_text: str) -> AmountsField:
    return AmountsField(
        help_text=f"{help_text}, as {{cpu: cores, mem: “64g”, cuda: devices}}; slots that are not named are "
        "unlimited."
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

    name = TextField(max_length=LONGEST_NAME, help_text="Name of the limit, unique in its group.")
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
