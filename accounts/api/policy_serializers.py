"""REST serializers of resource policies."""

from typing import Any

from rest_framework import serializers

from accounts.core.allow_lists import LONGEST_ENTRY, MOST_ENTRIES, AllowList, check_entries
from accounts.core.limits import HIGHEST_PRIORITY, Level
from accounts.core.utilization import LEAST_GRACE_S, LEAST_WINDOW_S, MOST_PERCENT, MOST_WINDOW_S
from accounts.forms.limit_fields import MOST_COUNT, parse_amount
from accounts.models import USE_RULES
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


def _least_use(of_what: str, further: str = "") -> serializers.IntegerField:
    return _count(
        f"Percent of the {of_what} that a session holds. Who uses less, over the window, ends after the grace, as `use_rule` says, whatever the group's rule; batch"
        f" sessions only where their group ends them for little use. null: as the group says.{further}",
        most=MOST_PERCENT,
        least=1,
    )


_UNMEASURED = (
    " Not measured on machines over the network, nor of devices that sessions share: there it ends nothing."
)


class LimitsInput(InputSerializer):
    """Limits of a policy. null means unlimited; zero forbids, in fields that accept it. For
    allow-lists null allows everything, an empty list nothing.
    """

    max_sessions = _count("Live sessions.")
    max_pending_sessions = _count("Sessions that wait.")
    max_containers = _count("Containers of one session.")
    max_lifetime_s = _count("Seconds that a session may run.", least=1)
    max_priority = _count(
        "Of a session, 0 to 100. null at every level, or set by policies of domains alone: 0.",
        most=HIGHEST_PRIORITY,
    )
    max_idle_s = _count(
        "Seconds without anybody at work in it after which an interactive session ends.", least=1
    )
    min_cpu_percent = _least_use("CPU")
    min_mem_percent = _least_use("memory")
    min_device_percent = _least_use("accelerators", _UNMEASURED)
    min_device_mem_percent = _least_use("accelerators' memory", _UNMEASURED)
    use_rule = serializers.ChoiceField(
        choices=USE_RULES,
        required=False,
        help_text="any: utilization is low if one resource with a minimum in this policy is below it; all: if all of those allocated to the session are.",
    )
    use_window_s = _count(
        "Seconds over which use is averaged; the shortest of all policies and the group holds. null: as the group says.",
        most=MOST_WINDOW_S,
        least=LEAST_WINDOW_S,
    )
    use_grace_s = _count(
        "Seconds from when it uses too little to its end; the shortest of all policies and the group holds. null: as the group says.",
        least=LEAST_GRACE_S,
    )
    max_extensions = _count("How often the end of a session may be put off.")
    max_extension_s = _count("Seconds by which it is put off at most each time.", least=1)
    max_slots = AmountsField(
        help_text="Allocated resources of all running sessions together, as {cpu: cores, mem: “64g”, cuda: devices}."
    )
    max_pending_slots = AmountsField(help_text="Requested resources of all waiting sessions together.")
    max_folders = _count("Folders.")
    max_folder_bytes = _count("Bytes of all folders together, as they were measured last.", MAX_AMOUNT)
    max_keypairs = _count("API tokens of a person.")
    max_requests = _count("Requests of one API token in a minute; null at every level: as the settings say.")
    max_browsers = _count(
        "Browsers in which one person is signed in at once; one more sign-in ends the oldest.", least=1
    )
    allowed_registries = EntriesField(
        AllowList.REGISTRIES,
        help_text="Like ghcr.io or ghcr.io/group; “local” is what is named without a host. null: all.",
    )
    allowed_images = EntriesField(
        AllowList.IMAGES,
        help_text="Like python:3.12 or ghcr.io/group/*; without a tag, any of it. null: all.",
    )
    allowed_storage_hosts = EntriesField(
        AllowList.STORAGE_HOSTS, help_text="Of new folders, by name. null: all."
    )


class PolicyCreateInput(LimitsInput):
    name = TextField(max_length=64)
    domain = TextField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Yours if absent; for superadmins the whole installation.",
    )


class PolicyChangeInput(LimitsInput):
    name = TextField(max_length=64, required=False)
    is_default = serializers.BooleanField(required=False, help_text="true: new people get it.")


class PolicyOut(serializers.Serializer[Any]):
    """A policy. Amounts in base units: cpu in millicores, devices in thousandths, bytes, seconds.
    null means unlimited.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    domain = serializers.CharField(
        source="domain.name", default="", help_text="Empty: of the whole installation."
    )
    is_default = serializers.BooleanField(help_text="New people get it.")
    max_sessions = serializers.IntegerField(allow_null=True)
    max_pending_sessions = serializers.IntegerField(allow_null=True)
    max_containers = serializers.IntegerField(allow_null=True)
    max_lifetime_s = serializers.IntegerField(allow_null=True)
    max_idle_s = serializers.IntegerField(allow_null=True)
    min_cpu_percent = serializers.IntegerField(allow_null=True)
    min_mem_percent = serializers.IntegerField(allow_null=True)
    min_device_percent = serializers.IntegerField(allow_null=True)
    min_device_mem_percent = serializers.IntegerField(allow_null=True)
    use_rule = serializers.ChoiceField(choices=USE_RULES)
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
    name = serializers.CharField(help_text="Of a person the e-mail.")


class ImpactOut(serializers.Serializer[Any]):
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="How many it limits, by level."
    )
    above = LimitOut(many=True, help_text="Who would use more than allowed, the furthest above first.")
    above_count = serializers.IntegerField(help_text="How many in all; not all are listed.")
    is_ending = serializers.BooleanField(
        help_text="Running sessions in which nobody works, or that use too little, may end by the new limits."
    )


class AssignmentInput(InputSerializer):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
    policy = TextField(max_length=64, allow_blank=True, help_text="Its name or number; empty: none.")


class AssignmentOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField()
    name = serializers.CharField()
    policy = serializers.CharField(allow_blank=True)
