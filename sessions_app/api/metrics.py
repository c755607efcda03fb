"""REST endpoint of a session's metrics."""

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import query_value
from common.token_scopes import FOR_SESSIONS
from common.values.text import quoted
from sessions_app.metrics.collector import SERIES
from sessions_app.metrics.history import Window, metrics_of
from sessions_app.selectors import Action, access_session

REFUSALS = {status: OpenApiResponse(ErrorOut) for status in (400, 401, 403, 404)}
WORDS = {
    "cpu_milli": "CPU in thousandths of a core",
    "mem_bytes": "memory in bytes",
    "net_received": "network, bytes a second received",
    "net_sent": "network, bytes a second sent",
    "disk_read": "disks, bytes a second read",
    "disk_written": "disks, bytes a second written",
    "device_percent": "the use of its accelerators in percent of whole devices, by all who share them",
    "device_mem_bytes": "the memory of its accelerators that is taken, in bytes, by all who share them",
}


class LimitsOut(serializers.Serializer[Any]):
    cpu_milli = serializers.IntegerField()
    mem_bytes = serializers.IntegerField()
    device_milli = serializers.IntegerField(help_text="Thousandths of accelerators; 0: it has none.")
    device_mem_bytes = serializers.IntegerField(
        allow_null=True, help_text="All memory of its accelerators; null where nobody measures them."
    )
    devices_are_shared = serializers.BooleanField(
        allow_null=True,
        help_text="Whether others hold a part of one; null where it has none, or nobody measures them.",
    )


def _series(help_text: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.IntegerField(allow_null=True), help_text=help_text)


class KernelMetricsOut(serializers.Serializer[Any]):
    """Lists of equal length, oldest first: one value for each time in `at`, null if unknown."""

    name = serializers.CharField(help_text="The container, like main1.")
    limits = LimitsOut()
    at = serializers.ListField(
        child=serializers.IntegerField(), help_text="When each point begins, in Unix seconds."
    )

    def get_fields(self) -> dict[str, Any]:
        means = {name: _series(f"Mean of {WORDS[name]}.") for name in SERIES}
        most = {f"{name}_max": _series(f"The most of {WORDS[name]}.") for name in SERIES}
        return {**super().get_fields(), **means, **most}


class MetricsOut(serializers.Serializer[Any]):
    window = serializers.CharField()
    step_s = serializers.IntegerField(help_text="Seconds from point to point.")
    unmeasured_since = serializers.DateTimeField(
        allow_null=True,
        help_text="When a running session was last measured, if that is more than a minute ago.",
    )
    kernels = KernelMetricsOut(many=True)


class SessionMetricsView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="read_session_metrics",
        parameters=[
            OpenApiParameter(
                "window",
                OpenApiTypes.STR,
                enum=[window.value for window in Window],
                description="The last 15 minutes, the last hour (if not given), or all of the session's life.",
            )
        ],
        responses={200: MetricsOut, **REFUSALS},
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Show the use of each container as at most 360 points; up to its end if the session has ended."""
        session = access_session(actor_of(request), session_id, Action.VIEW)
        return Response(MetricsOut(metrics_of(session, _window_asked_for(request))).data)


def _window_asked_for(request: Request) -> Window:
    asked = query_value(request, "window", usual=Window.HOUR.value)
    try:
        return Window(asked)
    except ValueError as error:
        sentence = _("{window} is no window. Give 15m, 1h or all.").format(window=quoted(asked))
        raise InvalidInput(sentence, fields={"window": [sentence]}) from error
