"""REST views of single accelerators: withholding, releasing, history."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.machines.withholding import (
    device_history,
    forget_device,
    quarantine_device,
    release_device,
)
from agents.models import AgentDevice
from common.models import AuditEntry
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN


class DeviceWithholdInput(InputSerializer):
    because = TextField(max_length=500, help_text="Reason, for those who look after the device next.")


class DeviceStateOut(serializers.ModelSerializer[AgentDevice]):
    class Meta:
        model = AgentDevice
        fields = (
            "id", "slot_name", "index", "device_id", "model", "withheld", "withheld_because", "withheld_since",
            "warning", "is_usable", "missing_since",
        )  # fmt: skip
        read_only_fields = fields


class DeviceEventOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField(source="recorded_at")
    action = serializers.CharField(help_text="Action of the audit log, e.g. agents.withhold_device.")
    because = serializers.SerializerMethodField()
    actor = serializers.CharField(source="actor_label")

    def get_because(self, entry: AuditEntry) -> str:
        return str(entry.changes.get("because", ""))


class DeviceWithholdView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="withhold_device",
        request=DeviceWithholdInput,
        responses={200: DeviceStateOut, 409: ErrorOut},
    )
    def post(self, request: Request, agent_id: int, device_id: int) -> Response:
        """Give a device to no new session until it is released; its sessions continue. For superadmins."""
        data = DeviceWithholdInput(data=request.data)
        data.is_valid(raise_exception=True)
        device = quarantine_device(
            actor=actor_of(request), device_id=device_id, because=data.validated_data["because"]
        )
        return Response(DeviceStateOut(device).data)


class DeviceReleaseView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="release_device", request=None, responses={200: DeviceStateOut, 409: ErrorOut}
    )
    def post(self, request: Request, agent_id: int, device_id: int) -> Response:
        """Give a withheld device to sessions again. For superadmins."""
        return Response(DeviceStateOut(release_device(actor=actor_of(request), device_id=device_id)).data)


class DeviceView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="delete_device", responses={204: None, 409: ErrorOut})
    def delete(self, request: Request, agent_id: int, device_id: int) -> Response:
        """Forget a missing device that no session holds. For superadmins."""
        forget_device(actor=actor_of(request), device_id=device_id)
        return Response(status=204)


class DeviceEventListView(GenericAPIView[AuditEntry]):
    token_scopes = FOR_ADMIN
    serializer_class = DeviceEventOut
    pagination_class = StandardPagination
    queryset = AuditEntry.objects.none()

    @extend_schema(operation_id="list_device_events", responses=DeviceEventOut(many=True))
    def get(self, request: Request, agent_id: int, device_id: int) -> Response:
        """List what happened to a device, newest first: withheld, released, warnings. For superadmins and
        monitors.
        """
        page = self.paginate_queryset(device_history(actor_of(request), device_id))
        return self.get_paginated_response(DeviceEventOut(page, many=True).data)
