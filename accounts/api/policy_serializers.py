"""REST serializers of resource policies."""

from typing import Any

from rest_framework import serializers

from accounts.core.allow_lists import LONGEST_ENTRY, MOST_ENTRIES, AllowList, check_entries
from accounts.core.limits import HIGHEST_PRIORITY, Level
from accounts.core.utilization import LEAST_GRACE_S, LEAST_WINDOW_S, MOST_PERCENT, MOST_WINDOW_S
from accounts.forms.limit_fields import MOST_COUNT, parse_amount
from accounts.models import UTILIZATION_RULES
from common.rest.errors import LimitOut
from common.rest.input import InputSerializer, TextField
from common.values.resources import MAX_AMOUNT

LEVELS = [level.value for level in Level]
MOST_SLOTS = 50


class AmountsField(serializers.DictField):
    """Amounts of slots, e.g. {"cpu": 16, "mem": "64g"}, converted to base units. Zeros are kept,
    because they forbid a slot.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def to_internal_value(self, data: Any) -> dict[str, int]:
        if not isinstance(data, dict) or len(data) > MOST_SLOTS:
            self.fail("not_a_dict", input_type=type(data).__name__)
        try:
            return {str(name): parse_amount(str(name), value) for name, value in data.items()}
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class EntriesField(serializers.ListField):
    """An allow-list; null means no list, which allows everything."""

    def __init__(self, kind: AllowList, **options: Any) -> None:
        one = TextField(max_length=LONGEST_ENTRY)
        super().__init__(child=one, required=False, allow_null=True, max_length=MOST_ENTRIES, **options)
        self._kind = kind

    def to_internal_value(self, data: Any) -> list[str]:
        try:
            return check_entries(self._kind, super().to_internal_value(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


def _count(help_text: str, most: int = MOST_COUNT, least: int = 0) -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, allow_null=True, min_value=least, max_value=most, help_text=help_text
    )


def _min_utilization(of_what: str, further: str = "") -> serializers.IntegerField:
    return _count(
        f"Minimum utilization of the allocated {of_what} in percent. A session whose average over "
        "`use_window_s` is below it, as combined by `use_rule`, ends after `use_grace_s`, whatever "
        "its group's rule; a batch session only if its group has `ends_idle_batch`. null: as the "
        f"group sets.{further}",
        most=MOST_PERCENT,
        least=1,
    )


UNMEASURED = (
    " Not measured, and so without effect, on agents reached over the network and for "
    "devices that sessions share."
)


class LimitsInput(InputSerializer):
    """Limits of a policy. null means unlimited; zero forbids, in fields that accept it. For
    allow-lists null allows everything, an empty list nothing.
    """

    max_sessions = _count("Maximum number of live sessions.")
    max_pending_sessions = _count("Maximum number of waiting sessions.")
    max_containers = _count("Maximum number of containers of a session.")
    max_lifetime_s = _count("Maximum runtime of a session in seconds.", least=1)
    max_priority = _count(
        "Highest priority of a session, 0 to 100. The limit is 0 if no policy of the whole "
        "installation sets it.",
        most=HIGHEST_PRIORITY,
    )
    max_idle_s = _count("Seconds without user activity after which an interactive session ends.", least=1)
    min_cpu_percent = _min_utilization("CPU")
    min_mem_percent = _min_utilization("memory")
    min_device_percent = _min_utilization("accelerators", UNMEASURED)
    min_device_mem_percent = _min_utilization("accelerator memory", UNMEASURED)
    use_rule = serializers.ChoiceField(
        choices=UTILIZATION_RULES,
        required=False,
        help_text="any: utilization is low if one resource with a minimum in this policy is below it; "
        "all: if all of them that are allocated to the session are.",
    )
    use_window_s = _count(
        "Period in seconds over which utilization is averaged; the shortest of all policies "
        "and the group applies. null: as the group sets.",
        most=MOST_WINDOW_S,
        least=LEAST_WINDOW_S,
    )
    use_grace_s = _count(
        "Seconds between the detection of low utilization and the end of the session; the "
        "shortest of all policies and the group applies. null: as the group sets.",
        least=LEAST_GRACE_S,
    )
    max_extensions = _count("Number of times that a session may be extended.")
    max_extension_s = _count("Maximum number of seconds by which one extension postpones the end.", least=1)
    max_slots = AmountsField(
        help_text="Maximum resources of all running sessions together, as {cpu: cores, mem: “64g”, "
        "cuda: devices}."
    )
    max_pending_slots = AmountsField(
        help_text="Maximum resources of all waiting sessions together, in the same form."
    )
    max_folders = _count("Maximum number of folders.")
    max_folder_bytes = _count("Maximum size of all folders together in bytes, as last measured.", MAX_AMOUNT)
    max_keypairs = _count("Maximum number of API tokens of a user.")
    max_requests = _count(
        "Maximum number of requests of an API token in one minute; null at every level: the "
        "default of the settings."
    )
    max_browsers = _count(
        "Maximum number of browsers in which a user is signed in; a further sign-in ends the oldest.", least=1
    )
    allowed_registries = EntriesField(
        AllowList.REGISTRIES,
        help_text="Allowed registries, e.g. ghcr.io or ghcr.io/group; “local”: images named without a "
        "host. null: all.",
    )
    allowed_images = EntriesField(
        AllowList.IMAGES,
        help_text="Allowed images, e.g. python:3.12 or ghcr.io/group/*; without a tag, all tags. null: all.",
    )
    allowed_storage_hosts = EntriesField(
        AllowList.STORAGE_HOSTS, help_text="Names of the storage hosts allowed for new folders. null: all."
    )


class PolicyCreateInput(LimitsInput):
    name = TextField(max_length=64)
    domain = TextField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Name of the domain; default: your own, for superadmins the whole installation.",
    )


class PolicyChangeInput(LimitsInput):
    name = TextField(max_length=64, required=False)
    is_default = serializers.BooleanField(required=False, help_text="true: new users get this policy.")


class PolicyOut(serializers.Serializer[Any]):
    """A policy. Amounts in base units: cpu in millicores, devices in thousandths, bytes, seconds.
    null means unlimited.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    domain = serializers.CharField(
        source="domain.name", default="", help_text="Name of the domain; empty: the whole installation."
    )
    is_default = serializers.BooleanField(help_text="true if new users get this policy.")
    max_sessions = serializers.IntegerField(allow_null=True)
    max_pending_sessions = serializers.IntegerField(allow_null=True)
    max_containers = serializers.IntegerField(allow_null=True)
    max_lifetime_s = serializers.IntegerField(allow_null=True)
    max_idle_s = serializers.IntegerField(allow_null=True)
    min_cpu_percent = serializers.IntegerField(allow_null=True)
    min_mem_percent = serializers.IntegerField(allow_null=True)
    min_device_percent = serializers.IntegerField(allow_null=True)
    min_device_mem_percent = serializers.IntegerField(allow_null=True)
    use_rule = serializers.ChoiceField(choices=UTILIZATION_RULES)
    use_window_s = serializers.IntegerField(allow_null=True)
    use_grace_s = serializers.IntegerField(allow_null=True)
    max_extensions = serializers.IntegerField(allow_null=True)
    max_extension_s = serializers.IntegerField(allow_null=True)
    max_priority = serializers.IntegerField(allow_null=True)
    max_slots = serializers.DictField(child=serializers.IntegerField(max_value=MAX_AMOUNT))
    max_pending_slots = serializers.DictField(child=serializers.IntegerField(max_value=MAX_AMOUNT))
    max_folders = serializers.IntegerField(allow_null=True)
    max_folder_bytes = serializers.IntegerField(allow_null=True)
    max_keypairs = serializers.IntegerField(allow_null=True)
    max_requests = serializers.IntegerField(allow_null=True)
    max_browsers = serializers.IntegerField(allow_null=True)
    allowed_registries = serializers.ListField(child=serializers.CharField(), allow_null=True)
    allowed_images = serializers.ListField(child=serializers.CharField(), allow_null=True)
    allowed_storage_hosts = serializers.ListField(child=serializers.CharField(), allow_null=True)
    created_at = serializers.DateTimeField()


class PolicyUserOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField()
    name = serializers.CharField(
        help_text="Name of the domain, project or token, or e-mail address of the user."
    )


class ImpactOut(serializers.Serializer[Any]):
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of limited objects by level."
    )
    above = LimitOut(many=True, help_text="Limits that would be exceeded, the most exceeded first.")
    above_count = serializers.IntegerField(
        help_text="Number of limits that would be exceeded, including those not listed."
    )
    is_ending = serializers.BooleanField(
        help_text="true if the new limits may end idle or under-utilized running sessions."
    )


class AssignmentInput(InputSerializer):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
    policy = TextField(max_length=64, allow_blank=True, help_text="Name or id of the policy; empty: none.")


class AssignmentOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField()
    name = serializers.CharField()
    policy = serializers.CharField(allow_blank=True)
