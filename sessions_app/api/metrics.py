"""REST endpoint of a session's metrics."""

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.input import query_value
from common.token_scopes import FOR_SESSIONS
from common.values.text import quoted
from sessions_app.metrics.collector import SERIES
from sessions_app.metrics.history import Window, session_metrics
from sessions_app.selectors import Action, access_session, find_kernel

WORDS = {
    "cpu_milli": "CPU use in thousandths of a core",
    "mem_bytes": "memory use in bytes",
    "net_received": "received network traffic in bytes per second",
    "net_sent": "sent network traffic in bytes per second",
    "disk_read": "disk reads in bytes per second",
    "disk_written": "disk writes in bytes per second",
    "device_percent": "utilization of the accelerators in percent of whole devices, by all sessions that "
    "share them",
    "device_mem_bytes": "memory use on the accelerators in bytes, by all sessions that share them",
    "device_activity": "the percentage by which idle rules judge the accelerators, where they can",
}


SESSION_WINDOW = OpenApiParameter(
    "window",
    OpenApiTypes.STR,
    enum=[window.value for window in Window],
    description="Last 15 minutes, last hour (default), or whole life of the session.",
)
METRICS_KERNEL = OpenApiParameter(
    "kernel", OpenApiTypes.STR, description="Only this container, like sub1; default: all."
)


class LimitsOut(serializers.Serializer[Any]):
    cpu_milli = serializers.IntegerField()
    mem_bytes = serializers.IntegerField()
    device_milli = serializers.IntegerField(
        help_text="Allocated accelerators in thousandths of a device; 0: none."
    )
    device_mem_bytes = serializers.IntegerField(
        allow_null=True, help_text="Total memory of the accelerators in bytes; null if they are not measured."
    )
    devices_are_shared = serializers.BooleanField(
        allow_null=True,
        help_text="true if other sessions hold a share of one; null if there are none, or they are "
        "not measured.",
    )


def _series(help_text: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.IntegerField(allow_null=True), help_text=help_text)


class KernelMetricsOut(serializers.Serializer[Any]):
    """Lists of equal length, oldest first: one value for each time in `at`, null if unknown."""

    name = serializers.CharField(help_text="Name of the container, e.g. main1.")
    limits = LimitsOut()
    at = serializers.ListField(
        child=serializers.IntegerField(), help_text="Start of each point, in Unix seconds."
    )

    def get_fields(self) -> dict[str, Any]:
        means = {name: _series(f"Mean of {WORDS[name]}.") for name in SERIES}
        most = {f"{name}_max": _series(f"Maximum of {WORDS[name]}.") for name in SERIES}
        return {**super().get_fields(), **means, **most}


class MetricsOut(serializers.Serializer[Any]):
    window = serializers.CharField()
    step_s = serializers.IntegerField(help_text="Seconds between points.")
    unmeasured_since = serializers.DateTimeField(
        allow_null=True,
        help_text="Time of the last measurement of a running session, if more than a minute ago; else null.",
    )
    kernels = KernelMetricsOut(many=True)


class SessionMetricsView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="read_session_metrics",
        parameters=[SESSION_WINDOW, METRICS_KERNEL],
        responses={200: MetricsOut},
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Show the use of each container as at most 360 points; up to its end if the session has ended."""
        session = access_session(actor_of(request), session_id, Action.VIEW)
        name = query_value(request, "kernel")
        kernel = find_kernel(session, name) if name else None
        return Response(MetricsOut(session_metrics(session, _window_asked_for(request), kernel)).data)


def _window_asked_for(request: Request) -> Window:
    asked = query_value(request, "window", usual=Window.HOUR.value)
    try:
        return Window(asked)
    except ValueError as error:
        sentence = _("{window} is no window. Give 15m, 1h or all.").format(window=quoted(asked))
        raise InvalidInput(sentence, fields={"window": [sentence]}) from error
