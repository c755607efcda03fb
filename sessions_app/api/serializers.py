"""Request and response bodies of the session endpoints."""

from typing import Any

from django.db.models import prefetch_related_objects
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import build_choice_field
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.rest.actor import actor_of
from common.values.resources import MEM
from sessions_app.app_services.urls import app_links
from sessions_app.callbacks.delivery import find_callback_url
from sessions_app.core.idle_rules import ResourceUtilization
from sessions_app.core.placement import Gang
from sessions_app.core.queue_options import DependencyRequest
from sessions_app.core.request import FolderRequest, RoleRequest, SessionRequest
from sessions_app.core.request_fields import RequestField
from sessions_app.core.states import Status
from sessions_app.dotfiles import delivery
from sessions_app.idle.facts import NextEnd, find_next_end
from sessions_app.idle.messages import explain_end
from sessions_app.metrics.allocated_devices import allocated_devices
from sessions_app.models import (
    ComputeSession,
    Kernel,
    PersonalSetup,
    SessionDependency,
    SessionMount,
    SessionTransition,
    SessionType,
)
from sessions_app.queue.dependencies import may_see_name
from sessions_app.termination import oom_kills

REQUEST_COMPONENTS = {
    SessionRequest: "SessionCreateInput",
    FolderRequest: "MountInput",
    DependencyRequest: "DependencyInput",
    RoleRequest: "RoleInput",
}
LABELLED_CHOICES = {"type": SessionType.choices}


class RequestSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Describes request bodies by the declarations of their fields."""

    target_class = "sessions_app.core.request_fields.RequestObject"
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        return REQUEST_COMPONENTS[self.target]

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        declared = self.target.fields()
        return {
            "type": "object",
            "description": self.target.__doc__,
            "properties": {name: _property(auto_schema, name, field) for name, field in declared.items()},
            "required": sorted(
                name
                for name, field in declared.items()
                if field.is_required and "default" not in field.schema
            ),
            "additionalProperties": False,
        }


def _property(auto_schema: AutoSchema, name: str, field: RequestField) -> dict[str, Any]:
    schema = dict(field.schema)
    is_clearable = field.default in ("", None)
    if values := schema.get("enum"):
        schema |= build_choice_field(
            serializers.ChoiceField(
                LABELLED_CHOICES.get(name, values), allow_blank=is_clearable, allow_null=is_clearable
            )
        )
    if field.items:
        item = auto_schema.resolve_serializer(field.items, "request")  # type: ignore[arg-type]
        schema |= {"type": "array", "items": item.ref}
    if is_clearable:
        schema["nullable"] = True
    elif isinstance(field.default, bool | int | str):
        schema["default"] = field.default
    description = "\n\n".join(filter(None, (field.description, schema.get("description"))))
    return schema | ({"description": description} if description else {})


class MountOut(serializers.ModelSerializer[SessionMount]):
    folder = serializers.CharField(source="folder_name")
    folder_id = serializers.UUIDField(allow_null=True)
    readonly = serializers.BooleanField(source="is_readonly")

    class Meta:
        model = SessionMount
        fields = ("folder", "folder_id", "subpath", "path", "readonly", "is_automatic")


DEPENDENCIES = "dependencies__after", "dependencies__after_array"
"""Relations to prefetch for the dependencies in a list of sessions."""


class DependencyOut(serializers.ModelSerializer[SessionDependency]):
    session = serializers.UUIDField(
        source="after_id", allow_null=True, help_text="Id of the session; null for an array."
    )
    array = serializers.UUIDField(
        source="after_array_id", allow_null=True, help_text="Id of the array; null for a session."
    )
    name = serializers.CharField(source="awaited.name")
    status = serializers.SerializerMethodField(help_text="Status of the session; null for an array.")

    class Meta:
        model = SessionDependency
        fields = ("session", "array", "name", "when", "status")

    def get_status(self, row: SessionDependency) -> str | None:
        return row.after.status if row.after else None


class AppOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    url = serializers.URLField()


class MemoryKillOut(serializers.Serializer[Any]):
    """Programs of the session that the kernel killed because its memory was used up."""

    count = serializers.IntegerField()
    killed_at = serializers.DateTimeField(help_text="Time of the last one.")
    peak_bytes = serializers.IntegerField()
    limit_bytes = serializers.IntegerField()
    message = serializers.CharField()


class SetupOut(serializers.Serializer[Any]):
    """Result of the owner's dotfiles and start-up script in this session."""

    script = serializers.ChoiceField(choices=PersonalSetup.Script.choices)
    exit_code = serializers.IntegerField(allow_null=True)
    took_s = serializers.IntegerField(allow_null=True)
    files = serializers.IntegerField(help_text="Number of dotfiles to write.")
    messages = serializers.ListField(child=serializers.CharField(), help_text="Messages about what failed.")


class UtilizationOut(serializers.Serializer[ResourceUtilization]):
    name = serializers.CharField(
        help_text="Resource: cpu, mem, device (all accelerators) or device_mem (their memory)."
    )
    percent = serializers.IntegerField(
        allow_null=True,
        help_text="Mean utilization in percent of the allocation; null: not measured, and so without effect.",
    )
    least = serializers.IntegerField(
        help_text="Minimum in percent that the resource group or a policy requires."
    )


class NextEndOut(serializers.Serializer[NextEnd]):
    """Expected end of a running session if nothing changes, and its measured utilization."""

    ends_at = serializers.DateTimeField(allow_null=True, help_text="null if no limit ends the session.")
    cause = serializers.CharField(
        help_text="Reason of the end: lifetime, interaction, use or preemption; empty for the time "
        "limit of the request."
    )
    why = serializers.SerializerMethodField(
        help_text="Message about the cause; empty if nothing ends the session."
    )
    is_near = serializers.BooleanField(help_text="true if the owner was warned.")
    is_soon = serializers.BooleanField(help_text="true if the session ends within 30 minutes.")
    interacted_at = serializers.DateTimeField(allow_null=True, help_text="Time of the last user activity.")
    idle_since = serializers.DateTimeField(
        allow_null=True, help_text="Start of the idle time; null if it is not limited or not measured."
    )
    max_idle_s = serializers.IntegerField(allow_null=True)
    gap = serializers.CharField(
        help_text="Reason why user activity is not measured now, which suspends the idle timeout; else empty."
    )
    use = UtilizationOut(
        many=True,
        help_text="Resources with a minimum utilization, as last measured; empty until the first "
        "window is over.",
    )

    def get_why(self, outlook: NextEnd) -> str:
        return explain_end(outlook)


class ContainerOut(serializers.Serializer[Kernel]):
    """One container of a session."""

    name = serializers.CharField(help_text="main1, sub1…: also its name in the network of the session.")
    role = serializers.CharField()
    rank = serializers.IntegerField(help_text="0 for main1, which runs the command.")
    agent = serializers.CharField(source="agent.name", default="", help_text="Empty before placement.")
    resources = serializers.DictField(
        source="slots", child=serializers.IntegerField(), help_text="In the units of the session's resources."
    )
    exit_code = serializers.IntegerField(allow_null=True)
    ended_at = serializers.DateTimeField(
        allow_null=True, help_text="Set if it ended and the session goes on without it."
    )


class SessionOut(serializers.ModelSerializer[ComputeSession]):
    status = serializers.ChoiceField(choices=[status.value for status in Status])
    project = serializers.CharField(source="project.name")
    domain = serializers.CharField(source="domain.name")
    array = serializers.UUIDField(
        source="array_id",
        allow_null=True,
        help_text="Id of the array; null if the session is not an array element.",
    )
    status_message = serializers.CharField(read_only=True)
    owner = serializers.EmailField(source="owner.email")
    resource_group = serializers.CharField(source="resource_group.name")
    image = serializers.CharField(source="image_reference")
    resources = serializers.SerializerMethodField(
        help_text="Resources per container: cpu in millicores, mem and shm in bytes, devices in thousandths."
    )
    mounts = MountOut(many=True)
    dependencies = serializers.SerializerMethodField(
        help_text="Sessions that it waits for; those of other projects are shown only to the owner."
    )
    agents = serializers.SerializerMethodField()
    cluster_size = serializers.IntegerField(source="kernel_count", help_text="Number of containers.")
    cluster_mode = serializers.ChoiceField(
        source="gang", choices=[each.value for each in Gang], help_text="Where several containers may run."
    )
    containers = ContainerOut(source="kernels", many=True)
    apps = serializers.SerializerMethodField()
    memory_kill = serializers.SerializerMethodField(
        help_text="Programs killed for lack of memory; null if there were none."
    )
    ending = serializers.SerializerMethodField(help_text="Expected end; null if the session is not running.")
    callback_url = serializers.SerializerMethodField(
        help_text="Address of callbacks; shown only to the owner."
    )
    designated_agent = serializers.CharField(
        source="designated_agent.name",
        default="",
        help_text="Name of the agent that was requested; empty: any agent of the resource group.",
    )
    setup = serializers.SerializerMethodField(
        help_text="Result of dotfiles and start-up script, shown only to the owner; null if there are none."
    )

    class Meta:
        model = ComputeSession
        fields = (
            "id", "name", "type", "status", "status_reason", "status_message", "exit_code", "owner", "project",
            "domain", "resource_group", "image", "resources", "mounts", "command", "timeout_s", "priority", "start_at", "pending_timeout_s", "dependencies", "max_retries", "retry_count", "requeues", "callback_url", "designated_agent", "may_run_elsewhere", "device_model", "device_mem_bytes", "device_api_version", "device_share_mem_bytes", "device_share_cores", "linked_devices", "isolation", "placement_group", "placement_rule", "array", "array_index", "queue_position",
            "cluster_size", "cluster_mode", "containers", "agents", "apps", "memory_kill", "ending", "personal_files", "setup", "created_at", "status_changed_at", "started_at", "ended_at", "deadline_at", "stops_at",
        )  # fmt: skip

    @extend_schema_field(DependencyOut(many=True))
    def get_dependencies(self, session: ComputeSession) -> list[dict[str, Any]]:
        reader_id = self.context["request"].user.pk
        prefetch_related_objects([session], *DEPENDENCIES)  # does nothing if the list was prefetched
        told = [
            row for row in session.dependencies.all() if may_see_name(row.awaited, session, user_id=reader_id)
        ]
        return list(DependencyOut(told, many=True).data)

    def get_callback_url(self, session: ComputeSession) -> str:
        return find_callback_url(actor_of(self.context["request"]), session)

    def get_resources(self, session: ComputeSession) -> dict[str, int]:
        return {**session.requested_slots, "shm": session.shm_bytes}

    def get_agents(self, session: ComputeSession) -> list[str]:
        return [kernel.agent.name for kernel in session.kernels.all() if kernel.agent is not None]

    @extend_schema_field(AppOut(many=True))
    def get_apps(self, session: ComputeSession) -> list[dict[str, object]]:
        return app_links(session)

    @extend_schema_field(SetupOut(allow_null=True))
    def get_setup(self, session: ComputeSession) -> dict[str, object] | None:
        is_own = session.owner_id == self.context["request"].user.pk
        setup = delivery.find_setup(session) if is_own else None
        if setup is None:
            return None
        return {
            "script": setup.script,
            "exit_code": setup.exit_code,
            "took_s": setup.took_s,
            "files": setup.files,
            "messages": delivery.failure_sentences(setup),
        }

    @extend_schema_field(NextEndOut(allow_null=True))
    def get_ending(self, session: ComputeSession) -> dict[str, Any] | None:
        outlook = find_next_end(session)
        return NextEndOut(outlook).data if outlook is not None else None

    @extend_schema_field(MemoryKillOut(allow_null=True))
    def get_memory_kill(self, session: ComputeSession) -> dict[str, object] | None:
        kernel = oom_kills.killed_kernel(session)
        if kernel is None:
            return None
        return {
            "count": kernel.memory_kills,
            "killed_at": kernel.memory_killed_at,
            "peak_bytes": kernel.memory_peak_bytes,
            "limit_bytes": kernel.slots[MEM],
            "message": str(oom_kills.memory_kill_message(session, kernel)),
        }


STATUSES = [status.value for status in Status]


class AllocatedDeviceOut(serializers.Serializer[Any]):
    kernel = serializers.CharField()
    agent = serializers.CharField()
    slot_name = serializers.CharField()
    index = serializers.IntegerField()
    device_id = serializers.CharField(help_text="Id of the device given by the vendor.")
    model = serializers.CharField()
    share = serializers.IntegerField(help_text="Allocated share in thousandths; 1000 is the whole device.")
    isolation = serializers.CharField(
        allow_blank=True,
        help_text="Protection from others on the device, read back on the running container: whole, hardware, "
        "driver+mps, driver, server, cooperative or none; empty: not verified.",
    )
    isolation_sentence = serializers.CharField(source="isolation.sentence", help_text="What that means.")
    isolation_note = serializers.CharField(
        allow_blank=True, help_text="Why it is less than the resource group's sharing rule says."
    )


class SessionDetailOut(SessionOut):
    devices = serializers.SerializerMethodField(
        help_text="Allocated accelerators, if they are known individually; empty if none are allocated."
    )

    class Meta(SessionOut.Meta):
        fields = (*SessionOut.Meta.fields, "devices")  # type: ignore[assignment]

    @extend_schema_field(AllocatedDeviceOut(many=True))
    def get_devices(self, session: ComputeSession) -> list[dict[str, Any]]:
        return list(AllocatedDeviceOut(allocated_devices(session), many=True).data)


class SlotRoomOut(serializers.Serializer[Any]):
    """One slot on the agents that could run the session, in base units."""

    largest = serializers.IntegerField(help_text="Largest capacity of one agent.")
    most_free = serializers.IntegerField(help_text="Largest free capacity of one agent.")
    capacity = serializers.IntegerField(help_text="Capacity of all agents together.")
    occupied = serializers.IntegerField(help_text="Amount allocated on all agents together.")


class StartRangeOut(serializers.Serializer[Any]):
    """Estimated start of a waiting session, from limits and recent run times of similar sessions.
    About eight of ten sessions start within the range.
    """

    earliest_s = serializers.IntegerField(help_text="Seconds from now.")
    latest_s = serializers.IntegerField(
        allow_null=True, help_text="Seconds from now; null if the latest start is unknown."
    )
    message = serializers.CharField(source="words")


class ExpectedStartOut(serializers.Serializer[Any]):
    status = serializers.CharField()
    expected_start = StartRangeOut(
        source="prospect.start_range",
        allow_null=True,
        help_text="Estimated start; null if it is unknown or the session does not wait for capacity.",
    )
    unknown_because = serializers.CharField(
        source="prospect.unknown_because",
        help_text="Reason why the latest start of a session that waits for capacity is unknown; else empty.",
    )
    best_room = serializers.DictField(
        source="prospect.best_room",
        child=serializers.IntegerField(),
        help_text="Free capacity of the best matching agent if the session waits for capacity, in "
        "base units.",
    )
    who_may_raise = serializers.CharField(
        source="prospect.who_may_raise",
        help_text="Message about who may raise the limit or priority that prevents the start; else empty.",
    )
    other_groups = serializers.ListField(
        source="prospect.other_groups",
        child=serializers.CharField(),
        help_text="Resource groups in which a waiting session of yours would start now.",
    )


class SessionCheckOut(serializers.Serializer[Any]):
    """Forecast of a request. Nothing is reserved."""

    starts_now = serializers.BooleanField(source="outlook.starts_now")
    agent = serializers.CharField(
        source="outlook.agent", help_text="Name of the agent on which it would start; empty if it would wait."
    )
    reason = serializers.CharField(
        source="outlook.reason", help_text="starts_now, or the code of the reason to wait."
    )
    message = serializers.CharField(source="outlook.sentence")
    queue_position = serializers.IntegerField(source="outlook.position", allow_null=True)
    expected_start = StartRangeOut(
        source="outlook.start_range", allow_null=True, help_text="Estimated start; null if it is unknown."
    )
    best_room = serializers.DictField(
        source="outlook.best_room",
        child=serializers.IntegerField(),
        help_text="Free capacity of the best matching agent if the session would wait for capacity, "
        "in base units. A request of that size may start now.",
    )
    who_may_raise = serializers.CharField(
        source="outlook.who_may_raise",
        help_text="Message about who may raise the limit or priority that prevents the start; else empty.",
    )
    other_groups = serializers.ListField(
        child=serializers.CharField(),
        help_text="Resource groups in which it would start now, if it would wait.",
    )
    resources = serializers.DictField(source="inputs.request.slots", child=serializers.IntegerField())
    resource_group = serializers.CharField(source="inputs.group.name")
    room = serializers.DictField(
        source="rooms", child=SlotRoomOut(), help_text="Capacity by slot, in base units."
    )
    live_sessions = serializers.IntegerField(help_text="Number of your live sessions, without this one.")
    live_limit = serializers.IntegerField(
        allow_null=True,
        help_text="Maximum number of your live sessions; null: unlimited. /api/v1/limits/ has all limits.",
    )


class TransitionOut(serializers.ModelSerializer[SessionTransition]):
    message = serializers.CharField()
    actor = serializers.CharField(source="actor_label")

    class Meta:
        model = SessionTransition
        fields = ("from_status", "to_status", "reason", "message", "actor", "happened_at")
