"""Serializers of agents, resource groups and grants.
Amounts are integers in base units: cpu in millicores, mem in bytes.
"""

from decimal import Decimal
from typing import Any

from rest_framework import serializers

from accounts.api.policy_serializers import UNMEASURED, AmountsField
from accounts.core.limits import HIGHEST_PRIORITY, Level
from accounts.core.utilization import LEAST_GRACE_S, LEAST_WINDOW_S, MOST_PERCENT, MOST_WINDOW_S
from accounts.forms.limit_fields import MOST_COUNT
from accounts.models import UTILIZATION_RULES
from agents.core.group_limits import LONGEST_NAME, MOST_LIMITS, WEEK
from agents.core.sandboxes import Sandbox
from agents.grantee import grantee_level, grantee_name
from agents.models import (
    DEVICE_FIELDS,
    LEAST_HALF_LIFE_S,
    LEAST_SPAN_S,
    MOST_HALF_LIFE_S,
    MOST_NOTICE_S,
    MOST_OVERCOMMIT,
    Agent,
    AgentDevice,
    GroupGrant,
    ResourceGroup,
    Scheduler,
    SessionType,
    Strategy,
)
from agents.resource_groups.service import DEVICE_RULES, END_RULES, OVERCOMMIT_FACTORS
from common.rest.input import InputSerializer, TextField
from common.values.resources import MAX_AMOUNT
from common.values.time_zones import LONGEST_ZONE

SESSION_TYPES = list(SessionType.values)
LONGEST_TIME = len("08:00")
LIMITS = (
    "Limits for all sessions of the group together and for each user, in force always "
    "or at certain hours of the week."
)
SANDBOXES = [sandbox.value for sandbox in Sandbox]
SANDBOX = (
    "Runtime that separates sessions from the kernel of their machine. Machines without it get none of the "
    "group's sessions; only runc gives accelerators."
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
GRANT_LEVELS = [level.value for level in (Level.DOMAIN, Level.PROJECT, Level.USER)]


class AgentDeviceOut(serializers.ModelSerializer[AgentDevice]):
    occupied = serializers.IntegerField(
        read_only=True, help_text="Thousandths of the device allocated to sessions."
    )
    is_present = serializers.BooleanField(
        read_only=True, help_text="false if the device is missing; it is then not allocated."
    )

    class Meta:
        model = AgentDevice
        fields = DEVICE_FIELDS


class AgentOut(serializers.ModelSerializer[Agent]):
    resource_group = serializers.CharField(source="resource_group.name")
    capacity = serializers.SerializerMethodField(
        help_text="Resources of the agent in base units; the maximum for one container."
    )
    promised = serializers.SerializerMethodField(
        help_text="Resources that can be allocated to all containers together; more than `capacity` "
        "if the group overcommits."
    )
    occupied = serializers.SerializerMethodField()
    images = serializers.SerializerMethodField()
    devices = AgentDeviceOut(many=True, read_only=True, source="device_list")

    class Meta:
        model = Agent
        fields = (
            "id",
            "name",
            "state",
            "resource_group",
            "architecture",
            "device_model",
            "engine_version",
            "sandboxes",
            "maintenance_ends_at",
            "maintenance_reason",
            "capacity",
            "promised",
            "occupied",
            "images",
            "devices",
            "heartbeat_at",
        )

    def get_capacity(self, agent: Agent) -> dict[str, int]:
        return agent.capacity.to_json()

    def get_promised(self, agent: Agent) -> dict[str, int]:
        return agent.allocatable.to_json()

    def get_occupied(self, agent: Agent) -> dict[str, int]:
        return agent.occupied.to_json()

    def get_images(self, agent: Agent) -> list[str]:
        return [image.reference for image in agent.images.all()]


def _amounts_field(help_text: str) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.IntegerField(max_value=MAX_AMOUNT),
        help_text=f"{help_text}, in base units; slots that are not named are unlimited.",
    )


def _amounts_input(help_text: str) -> AmountsField:
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
    together = _amounts_field(_TOGETHER)
    each = _amounts_field(_EACH)
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
    together = _amounts_input(_TOGETHER)
    each = _amounts_input(_EACH)
    days = serializers.ListField(
        child=serializers.IntegerField(min_value=WEEK[0], max_value=WEEK[-1]),
        required=False,
        max_length=len(WEEK),
        help_text=_DAYS,
    )
    begins = TextField(max_length=LONGEST_TIME, required=False, allow_blank=True, help_text=_BEGINS)
    ends = TextField(max_length=LONGEST_TIME, required=False, allow_blank=True, help_text=_ENDS)
    time_zone = TextField(max_length=LONGEST_ZONE, required=False, allow_blank=True, help_text=_ZONE)


CPU_OVERCOMMIT = (
    "Allocatable cores as a multiple of the agent's cores; 1: no overcommit. One "
    "session gets at most the agent's cores."
)
ALLOWS_RDMA = (
    "true: sessions with accelerators get the RDMA and GDRCopy devices of their machine, and may lock any "
    "amount of memory."
)
ALLOWS_GPUDIRECT_STORAGE = (
    "true: sessions with accelerators get the nvidia-fs devices of their machine, which access its disks."
)
MEM_OVERCOMMIT = (
    "Allocatable memory as a multiple of the agent's memory; 1: no overcommit. If "
    "sessions use more than the agent has, some of them are killed."
)


class ResourceGroupOut(serializers.ModelSerializer[ResourceGroup]):
    agents: Any = serializers.IntegerField(
        source="agent_count", help_text="Number of agents that are not retired."
    )
    is_active: Any = serializers.BooleanField(
        help_text="false if the group is paused: it accepts requests, but starts no sessions."
    )
    is_public: Any = serializers.BooleanField(help_text="false if only holders of a grant may use the group.")
    session_types: Any = serializers.ListField(child=serializers.ChoiceField(choices=SESSION_TYPES))
    cpu_overcommit: Any = serializers.FloatField(help_text=CPU_OVERCOMMIT)
    mem_overcommit: Any = serializers.FloatField(help_text=MEM_OVERCOMMIT)
    allows_rdma: Any = serializers.BooleanField(help_text=ALLOWS_RDMA)
    allows_gpudirect_storage: Any = serializers.BooleanField(help_text=ALLOWS_GPUDIRECT_STORAGE)
    sandbox: Any = serializers.ChoiceField(choices=SANDBOXES, help_text=SANDBOX)
    max_session_slots: Any = serializers.DictField(
        child=serializers.IntegerField(max_value=MAX_AMOUNT),
        help_text="Maximum that one session may request, in base units; slots that are not named are "
        "unlimited.",
    )
    limits: Any = GroupLimitOut(many=True, help_text=LIMITS)

    class Meta:
        model = ResourceGroup
        fields = (
            "id", "name", "description", "is_default", "is_active", "is_public", "strategy", "scheduler", "ageing_s",
            "patience_s", "usage_half_life_s", "preemptible_priority", "preemption_after_s", "preemption_grace_s",
            "session_types", "max_session_slots", "limits", "sandbox", *OVERCOMMIT_FACTORS, *DEVICE_RULES,
            *END_RULES, "agents",
        )  # fmt: skip


def _factor_field(help_text: str) -> serializers.DecimalField:
    return serializers.DecimalField(
        max_digits=4,
        decimal_places=2,
        min_value=Decimal(1),
        max_value=Decimal(MOST_OVERCOMMIT),
        required=False,
        help_text=help_text,
    )


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
        choices=UTILIZATION_RULES,
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


class ResourceGroupChangeInput(GroupEndsInput):
    name = TextField(max_length=64, required=False)
    description = TextField(max_length=500, required=False, allow_blank=True)
    is_default = serializers.BooleanField(
        required=False,
        help_text="true: sessions that name no group go to this one, instead of the previous default group.",
    )
    is_active = serializers.BooleanField(
        required=False, help_text="false pauses the group: it accepts requests, but starts no sessions."
    )
    is_public = serializers.BooleanField(
        required=False, help_text="true: everybody may use the group; false: only holders of a grant."
    )
    strategy = serializers.ChoiceField(choices=Strategy.choices, required=False)
    scheduler = serializers.ChoiceField(choices=Scheduler.choices, required=False)
    ageing_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST_COUNT,
        help_text="Seconds of waiting that raise a session's priority by one; null: no ageing.",
    )
    patience_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_COUNT,
        help_text="Seconds of waiting after which capacity is reserved for the first session that "
        "does not fit. If its start can be predicted, capacity is reserved at once.",
    )
    usage_half_life_s = serializers.IntegerField(
        required=False,
        min_value=LEAST_HALF_LIFE_S,
        max_value=MOST_HALF_LIFE_S,
        help_text="Seconds after which past use counts half, for fair share only.",
    )
    preemptible_priority = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=-HIGHEST_PRIORITY,
        max_value=HIGHEST_PRIORITY,
        help_text="Sessions of this priority or lower are preempted if a session of higher priority "
        "does not fit; null: no preemption.",
    )
    preemption_after_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_COUNT,
        help_text="Seconds that a session runs at least before it can be preempted.",
    )
    preemption_grace_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_NOTICE_S,
        help_text="Seconds between the warning of the owner and the preemption.",
    )
    session_types = serializers.ListField(
        child=serializers.ChoiceField(choices=SESSION_TYPES),
        required=False,
        allow_empty=False,
        max_length=len(SessionType.values),
    )
    cpu_overcommit = _factor_field(CPU_OVERCOMMIT)
    mem_overcommit = _factor_field(MEM_OVERCOMMIT)
    allows_rdma = serializers.BooleanField(required=False, help_text=ALLOWS_RDMA)
    allows_gpudirect_storage = serializers.BooleanField(required=False, help_text=ALLOWS_GPUDIRECT_STORAGE)
    sandbox = serializers.ChoiceField(choices=SANDBOXES, required=False, help_text=SANDBOX)
    max_session_slots = AmountsField(
        help_text="Maximum that one session may request, as {cpu: cores, mem: “64g”, cuda: devices}."
    )
    limits = serializers.ListField(
        child=GroupLimitInput(),
        required=False,
        max_length=MOST_LIMITS,
        help_text=f"{LIMITS} Replaces the present limits.",
    )


class ResourceGroupCreateInput(ResourceGroupChangeInput):
    name = TextField(max_length=64)


class GrantInput(InputSerializer):
    level = serializers.ChoiceField(choices=GRANT_LEVELS)
    id = serializers.IntegerField(min_value=1, max_value=2**63 - 1)


class GrantOut(serializers.ModelSerializer[GroupGrant]):
    level: Any = serializers.SerializerMethodField()
    of: Any = serializers.SerializerMethodField(help_text="Id of the domain, project or user.")
    name: Any = serializers.SerializerMethodField(
        help_text="Name of the domain or project, or e-mail address of the user."
    )

    class Meta:
        model = GroupGrant
        fields = ("id", "level", "of", "name", "created_at")

    def get_level(self, grant: GroupGrant) -> str:
        return grantee_level(grant.grantee)

    def get_of(self, grant: GroupGrant) -> int:
        return grant.grantee.pk

    def get_name(self, grant: GroupGrant) -> str:
        return grantee_name(grant.grantee)


class AgentMoveInput(InputSerializer):
    agent = TextField(max_length=64, help_text="Name of the agent.")
