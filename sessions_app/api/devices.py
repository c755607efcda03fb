"""REST body of one session with its allocated devices."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sessions_app.api.serializers import SessionOut
from sessions_app.core.states import Status
from sessions_app.metrics.allocated_devices import allocated_devices
from sessions_app.models import ComputeSession

STATUSES = [status.value for status in Status]


class HeldDeviceOut(serializers.Serializer[Any]):
    kernel = serializers.CharField()
    agent = serializers.CharField()
    slot_name = serializers.CharField()
    index = serializers.IntegerField()
    device_id = serializers.CharField(help_text="Id of the device given by the vendor.")
    model = serializers.CharField()
    share = serializers.IntegerField(help_text="Allocated share in thousandths; 1000 is the whole device.")


class SessionDetailOut(SessionOut):
    devices = serializers.SerializerMethodField(
        help_text="Allocated accelerators, if they are known individually; empty if none are allocated."
    )

    class Meta(SessionOut.Meta):
        fields = (*SessionOut.Meta.fields, "devices")  # type: ignore[assignment]

    @extend_schema_field(HeldDeviceOut(many=True))
    def get_devices(self, session: ComputeSession) -> list[dict[str, Any]]:
        return list(HeldDeviceOut(allocated_devices(session), many=True).data)
