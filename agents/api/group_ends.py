"""Input serializer for the rules by which sessions of a resource group end."""

from typing import Any

from rest_framework import serializers

from accounts.api.policy_serializers import UNMEASURED
from accounts.core.utilization import LEAST_GRACE_S, LEAST_WINDOW_S, MOST_PERCENT, MOST_WINDOW_S
from accounts.forms.limit_fields import MOST_COUNT
from accounts.models import USE_RULES
from agents.models import LEAST_SPAN_S
from common.rest.input import InputSerializer


def _least_use(of_what: str, further: str = "") -> Any:
    return serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST_PERCENT,
        help_text=f"Minimum utilization of the allocated {of_what} in percent. A session whose average over "
        f"`use_window_s` is below it ends after `use_grace_s`; null: as policies set.{further}",
    )


class GroupEndsInput(InputSerializer):
    max_lifetime_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=LEAST_SPAN_S,
        max_value=MOST_COUNT,
        help_text="Maximum runtime of a session in seconds; null: as policies set.",
    )
    max_idle_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=LEAST_SPAN_S,
        max_value=MOST_COUNT,
        help_text="Seconds without user activity after which an interactive session ends; null: as "
        "policies set.",
    )
    min_cpu_percent = _least_use("CPU")
    min_mem_percent = _least_use("memory")
    min_device_percent = _least_use("accelerators", UNMEASURED)
    min_device_mem_percent = _least_use("accelerator memory", UNMEASURED)
    use_rule = serializers.ChoiceField(
        choices=USE_RULES,
        required=False,
        help_text="all: utilization is low if all resources with a minimum are below it; any: if one "
        "of them is.",
    )
    use_window_s = serializers.IntegerField(
        required=False,
        min_value=LEAST_WINDOW_S,
        max_value=MOST_WINDOW_S,
        help_text="Period in seconds over which utilization is averaged.",
    )
    use_grace_s = serializers.IntegerField(
        required=False,
        min_value=LEAST_GRACE_S,
        max_value=MOST_COUNT,
        help_text="Seconds between the detection of low utilization and the end of the session.",
    )
    ends_idle_batch = serializers.BooleanField(
        required=False, help_text="true: low utilization ends batch sessions too."
    )
    max_extensions = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_COUNT,
        help_text="Number of times that a session may be extended.",
    )
    extension_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_COUNT,
        help_text="Seconds by which one extension postpones the end.",
    )
