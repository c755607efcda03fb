"""Input serializer for the rules by which sessions of a resource group end."""

from typing import Any

from rest_framework import serializers

from accounts.core.utilization import LEAST_GRACE_S, LEAST_WINDOW_S, MOST_PERCENT, MOST_WINDOW_S
from accounts.forms.limit_fields import MOST_COUNT
from accounts.models import USE_RULES
from agents.models import LEAST_SPAN_S
from common.rest.input import InputSerializer

_UNMEASURED = (
    " Not measured on machines over the network, nor of devices that sessions share: there it ends nothing."
)


def _least_use(of_what: str, further: str = "") -> Any:
    return serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST_PERCENT,
        help_text=f"Percent of the {of_what} allocated to a session. Who uses less, over the window, ends after the grace; null: as"
        f" policies say.{further}",
    )


class GroupEndsInput(InputSerializer):
    max_lifetime_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=LEAST_SPAN_S,
        max_value=MOST_COUNT,
        help_text="Seconds that one session may run; null: as policies say.",
    )
    max_idle_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=LEAST_SPAN_S,
        max_value=MOST_COUNT,
        help_text="Seconds without user activity after which an interactive session ends; null: as policies say.",
    )
    min_cpu_percent = _least_use("CPU")
    min_mem_percent = _least_use("memory")
    min_device_percent = _least_use("accelerators", _UNMEASURED)
    min_device_mem_percent = _least_use("accelerators' memory", _UNMEASURED)
    use_rule = serializers.ChoiceField(
        choices=USE_RULES,
        required=False,
        help_text="all: a session uses too little if all that have a least use are below it; any: if one is.",
    )
    use_window_s = serializers.IntegerField(
        required=False,
        min_value=LEAST_WINDOW_S,
        max_value=MOST_WINDOW_S,
        help_text="Seconds over which use is averaged.",
    )
    use_grace_s = serializers.IntegerField(
        required=False,
        min_value=LEAST_GRACE_S,
        max_value=MOST_COUNT,
        help_text="Seconds from when it uses too little to its end.",
    )
    ends_idle_batch = serializers.BooleanField(
        required=False, help_text="true: batch sessions end for low utilization as well."
    )
    max_extensions = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_COUNT,
        help_text="How often a session may be extended.",
    )
    extension_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_COUNT,
        help_text="Seconds that an extension puts its end off.",
    )
