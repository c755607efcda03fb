"""REST endpoints of accelerators: measurements of a session's and of a machine's, and all as they are now."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.selectors import require_superadmin, sees_everything
from agents.metering.collector import SERIES
from agents.models import AgentDevice
from agents.selectors import access_agent
from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.input import query_value
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN, FOR_SESSIONS
from common.values.text import quoted
from sessions_app.api.metrics import SESSION_WINDOW
from sessions_app.api.metrics import WORDS as SESSION_WORDS
from sessions_app.metrics.device_history import (
    MachineWindow,
    agent_device_metrics,
    session_device_metrics,
)
from sessions_app.metrics.history import Window
from sessions_app.metrics.machine_history import HELD, agent_metrics
from sessions_app.metrics.machine_history import SERIES as USED
from sessions_app.metrics.present_devices import PresentDevice, PresentDevicePages, Top, top_devices
from sessions_app.selectors import Action, access_session

Choice = TypeVar("Choice", bound=StrEnum)
WORDS = {
    "percent": "the share of time in which the device computed, in percent",
    "mem_bytes": "used memory of the device in bytes",
    "watts": "power in watts",
    "celsius": "temperature in degrees Celsius",
}


MACHINE_WINDOW = OpenApiParameter(
    "window",
    OpenApiTypes.STR,
    enum=[window.value for window in MachineWindow],
    description="Last 15 minutes, hour (default), day or 30 days.",
)


class HolderOut(serializers.Serializer[Any]):
    session_id = serializers.UUIDField(allow_null=True, help_text="null: a session that you may not see.")
    name = serializers.CharField(allow_null=True)
    milli = serializers.IntegerField(help_text="Thousandths of the device that it holds.")
    mem_bytes = serializers.IntegerField(
        allow_null=True, help_text="Memory that its processes use there; null if the driver does not tell."
    )


class DeviceLimitsOut(serializers.Serializer[Any]):
    mem_bytes = serializers.IntegerField(allow_null=True, help_text="Memory of the device; null if unknown.")


class DeviceMetricsOut(serializers.Serializer[Any]):
    """One device. Lists of equal length, oldest first: one value for each time in `at`, null if it was
    not measured.
    """

    name = serializers.CharField(help_text="Slot and index, e.g. cuda 0.")
    device_id = serializers.CharField()
    agent = serializers.CharField(help_text="Name of its machine.")
    container = serializers.CharField(help_text="Container that holds it; empty for a machine.")
    slot_name = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    share_milli = serializers.IntegerField(help_text="Thousandths of the device that the session holds.")
    own_mem_bytes = serializers.IntegerField(
        allow_null=True,
        help_text="Memory that the session's own processes use now; null if the driver does not tell.",
    )
    holders = HolderOut(many=True, help_text="Sessions that hold it; for a machine.")
    limits = DeviceLimitsOut()
    at = serializers.ListField(
        child=serializers.IntegerField(), help_text="Start of each point, in Unix seconds."
    )

    def get_fields(self) -> dict[str, Any]:
        means = {name: _series(name, f"Mean of {WORDS[name]}.") for name in SERIES}
        most = {f"{name}_max": _series(name, f"Maximum of {WORDS[name]}.") for name in SERIES}
        return {**super().get_fields(), **means, **most}


def _series(name: str, help_text: str) -> serializers.ListField:
    child = serializers.FloatField if name == "watts" else serializers.IntegerField
    return serializers.ListField(child=child(allow_null=True), help_text=help_text)


class DevicesMetricsOut(serializers.Serializer[Any]):
    window = serializers.CharField()
    step_s = serializers.IntegerField(help_text="Seconds between points.")
    unmeasured_since = serializers.DateTimeField(
        allow_null=True, help_text="Time of the last measurement, if it is not recent; else null."
    )
    devices = DeviceMetricsOut(many=True)


class PresentDeviceOut(serializers.Serializer[Any]):
    """One device now. Measured values are null if they are unknown, never zero."""

    id = serializers.IntegerField(source="pk")
    agent_id = serializers.IntegerField()
    agent = serializers.CharField()
    slot_name = serializers.CharField()
    index = serializers.IntegerField()
    device_id = serializers.CharField()
    vendor = serializers.CharField()
    model = serializers.CharField()
    profile = serializers.CharField(help_text="Size of a partition; empty for a whole device.")
    parent_id = serializers.CharField(help_text="Device that a partition is a part of.")
    state = serializers.CharField(
        help_text="free, shared, held, idle (held and unused), ill, withheld, split or absent."
    )
    withheld_because = serializers.CharField()
    warning = serializers.CharField()
    occupied_milli = serializers.IntegerField(source="occupied")
    mem_total_bytes = serializers.IntegerField()
    measured_at = serializers.DateTimeField(source="at", allow_null=True)
    percent = serializers.IntegerField(allow_null=True)
    mem_bytes = serializers.IntegerField(allow_null=True)
    watts = serializers.FloatField(allow_null=True)
    celsius = serializers.IntegerField(allow_null=True)
    holders = HolderOut(many=True)


class SessionDevicesView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="read_session_devices",
        parameters=[SESSION_WINDOW],
        responses={200: DevicesMetricsOut},
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Show use, memory, power and temperature of each accelerator that the session holds, as at most 360
        points. Of a device that others share, the values are those of all together.
        """
        session = access_session(actor_of(request), session_id, Action.VIEW)
        window = _chosen(request, "window", Window, Window.HOUR)
        return Response(DevicesMetricsOut(session_device_metrics(session, window)).data)


class AgentDevicesView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="read_agent_devices",
        parameters=[MACHINE_WINDOW],
        responses={200: DevicesMetricsOut},
    )
    def get(self, request: Request, agent_id: int) -> Response:
        """Show use, memory, power and temperature of each accelerator of an agent, and who holds it."""
        actor = actor_of(request)
        agent = access_agent(actor, agent_id)
        window = _chosen(request, "window", MachineWindow, MachineWindow.HOUR)
        return Response(DevicesMetricsOut(agent_device_metrics(actor, agent, window)).data)


class AgentLimitsOut(serializers.Serializer[Any]):
    cpu_milli = serializers.IntegerField()
    mem_bytes = serializers.IntegerField()
    device_milli = serializers.IntegerField(help_text="Always 0: devices have metrics of their own.")


class AgentUseOut(serializers.Serializer[Any]):
    """All sessions of an agent together. Lists of equal length, oldest first: one value for each time in
    `at`, null if sessions ran and were not measured.
    """

    name = serializers.CharField()
    limits = AgentLimitsOut(help_text="Capacity of the agent.")
    at = serializers.ListField(
        child=serializers.IntegerField(), help_text="Start of each point, in Unix seconds."
    )

    def get_fields(self) -> dict[str, Any]:
        used = {name: _series(name, f"Mean of {SESSION_WORDS[name]}.") for name in USED}
        held = {name: _series(name, "Mean of what sessions held.") for name in HELD.values()}
        return {**super().get_fields(), **used, **held}


class AgentMetricsOut(serializers.Serializer[Any]):
    window = serializers.CharField()
    step_s = serializers.IntegerField(help_text="Seconds between points.")
    unmeasured_since = serializers.DateTimeField(allow_null=True, help_text="Always null.")
    kernels = AgentUseOut(many=True, help_text="One: the agent.")


class AgentMetricsView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="read_agent_metrics",
        parameters=[MACHINE_WINDOW],
        responses={200: AgentMetricsOut},
    )
    def get(self, request: Request, agent_id: int) -> Response:
        """Show what the sessions of an agent used and held together of its CPU, memory, network and disks."""
        agent = access_agent(actor_of(request), agent_id)
        window = _chosen(request, "window", MachineWindow, MachineWindow.HOUR)
        return Response(AgentMetricsOut(agent_metrics(agent, window)).data)


class DeviceListView(GenericAPIView[AgentDevice]):
    token_scopes = FOR_ADMIN
    serializer_class = PresentDeviceOut
    pagination_class = StandardPagination
    queryset = AgentDevice.objects.none()

    @extend_schema(
        operation_id="list_devices",
        parameters=[
            OpenApiParameter(
                "top",
                OpenApiTypes.STR,
                enum=[top.value for top in Top],
                description="Only the most notable of the last 15 minutes: held and idle, busiest, or hottest.",
            )
        ],
        responses={200: PresentDeviceOut(many=True)},
    )
    def get(self, request: Request) -> Response:
        """List all accelerators as they are now, with the sessions that hold them. For superadmins and monitors."""
        actor = actor_of(request)
        if not sees_everything(actor):
            require_superadmin(actor)
        devices: Sequence[PresentDevice] | PresentDevicePages
        if query_value(request, "top", usual=""):
            devices = top_devices(actor, _chosen(request, "top", Top, Top.WASTED))
        else:
            devices = PresentDevicePages(actor)
        page = self.paginate_queryset(devices)  # type: ignore[arg-type]  # lists are paginated, too
        return self.get_paginated_response(PresentDeviceOut(page, many=True).data)


def _chosen(request: Request, name: str, choices: type[Choice], usual: Choice) -> Choice:
    value = query_value(request, name, usual=usual.value)
    try:
        return choices(value)
    except ValueError as error:
        known = ", ".join(choices)
        sentence = _("{value} is none of these: {known}.").format(value=quoted(value), known=known)
        raise InvalidInput(sentence, fields={name: [sentence]}) from error
