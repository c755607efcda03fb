"""REST views of storage hosts and of the machines that reach them."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.selectors import require_superadmin
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN
from sessions_app.storage_reach import service
from sessions_app.storage_reach.selectors import HostEntry, host_entries, host_entry
from vfolders.core.mounts import MAX_OPTION, VOLUME_TYPES
from vfolders.models import StorageHost


class VolumeOptionsInput(InputSerializer):
    """Options of Docker's volume driver `local`."""

    type = TextField(max_length=10, help_text=f"File system: {', '.join(VOLUME_TYPES)}.")
    o = TextField(
        max_length=MAX_OPTION,
        required=False,
        allow_blank=True,
        help_text="Mount options; {secret} is the password.",
    )
    device = TextField(max_length=MAX_OPTION, help_text="The share; folders are directories below it.")


class StorageReachChange(InputSerializer):
    """Changes of how machines other than the portal's reach a host; absent fields stay unchanged."""

    reach = serializers.ChoiceField(choices=StorageHost.Reach.values, required=False)
    agent_path = TextField(max_length=500, required=False, help_text="For `path`: where machines have it.")
    volume_options = VolumeOptionsInput(required=False, help_text="For `volume`.")
    secret = TextField(max_length=1000, required=False, help_text="Password of the share; never returned.")


class MachineReachOut(serializers.Serializer[Any]):
    agent = serializers.CharField()
    is_reached = serializers.BooleanField(allow_null=True, help_text="null: not looked at yet.")
    error = serializers.CharField(help_text="Why it does not reach the host.")
    checked_at = serializers.DateTimeField(allow_null=True)


class StorageHostOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="host.pk")
    name = serializers.CharField(source="host.name")
    is_default = serializers.BooleanField(source="host.is_default")
    is_active = serializers.BooleanField(
        source="host.is_active", help_text="New folders may be created there."
    )
    reach = serializers.ChoiceField(choices=StorageHost.Reach.values, source="host.reach")
    agent_path = serializers.CharField(source="host.agent_path")
    volume_options = serializers.DictField(child=serializers.CharField(), source="host.volume_options")
    has_secret = serializers.SerializerMethodField()
    machines = serializers.SerializerMethodField()

    def get_has_secret(self, entry: HostEntry) -> bool:
        return bool(entry.host.volume_secret)

    @extend_schema_field(MachineReachOut(many=True))
    def get_machines(self, entry: HostEntry) -> Any:
        rows = [
            {
                "agent": agent.name,
                "is_reached": reach.is_reached if reach else None,
                "error": reach.error if reach else "",
                "checked_at": reach.checked_at if reach else None,
            }
            for agent, reach in entry.machines
        ]
        return MachineReachOut(rows, many=True).data


class StorageHostListView(GenericAPIView[StorageHost]):
    token_scopes = FOR_ADMIN
    serializer_class = StorageHostOut
    pagination_class = StandardPagination
    queryset = StorageHost.objects.none()

    @extend_schema(operation_id="list_storage_hosts", responses=StorageHostOut(many=True), tags=["storage"])
    def get(self, request: Request) -> Response:
        """List the storage hosts, and which machines reach them. For superadmins and monitors."""
        entries: Any = host_entries(actor_of(request))
        return self.get_paginated_response(StorageHostOut(self.paginate_queryset(entries), many=True).data)


class StorageHostView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="change_storage_reach",
        request=StorageReachChange,
        responses={200: StorageHostOut, 404: ErrorOut},
        tags=["storage"],
    )
    def patch(self, request: Request, storage_host_id: int) -> Response:
        """Change how machines reach a storage host; they are proven anew. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = StorageReachChange(data=request.data)
        data.is_valid(raise_exception=True)
        service.change_reach(actor=actor, host_id=storage_host_id, changes=data.validated_data)
        return Response(StorageHostOut(host_entry(actor, storage_host_id)).data)


class StorageHostCheckView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="check_storage_host",
        request=None,
        responses={202: StorageHostOut, 404: ErrorOut},
        tags=["storage"],
    )
    def post(self, request: Request, storage_host_id: int) -> Response:
        """Have all machines prove again, within seconds, that they reach the host. For superadmins."""
        actor = actor_of(request)
        service.check_host(actor=actor, host_id=storage_host_id)
        return Response(StorageHostOut(host_entry(actor, storage_host_id)).data, status=202)
