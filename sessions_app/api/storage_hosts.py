"""REST views of storage hosts and of the machines that reach them."""

from functools import partial
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
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN
from common.values.text import check_text
from sessions_app.storage_reach import service
from sessions_app.storage_reach.selectors import HostEntry, host_entries, host_entry
from vfolders.core.host_rights import parse_rights, right_names
from vfolders.core.mounts import MAX_OPTION, VOLUME_TYPES
from vfolders.hosts import service as hosts
from vfolders.hosts.service import HOLDERS
from vfolders.models import StorageGrant, StorageHost
from vfolders.storage.kinds import HostKind
from vfolders.storage.registry import KINDS

RIGHTS = right_names(127)


check_setting = partial(check_text, max_length=4000, is_multiline=True)


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


class StorageHostAdd(InputSerializer):
    name = TextField(max_length=64)
    kind = serializers.ChoiceField(choices=sorted(KINDS))
    settings = serializers.DictField(
        child=TextField(check=check_setting, allow_blank=True),
        required=False,
        help_text="As /storage-host-kinds/ declares them for the kind.",
    )


class StorageGrantInput(InputSerializer):
    """Rights of one holder."""

    holder = serializers.ChoiceField(choices=HOLDERS)
    name = TextField(max_length=130, help_text="A project as domain/project.")
    rights = serializers.ListField(child=serializers.ChoiceField(choices=RIGHTS))


class StorageRightsInput(InputSerializer):
    """Rights on a host: open to everybody, or as granted."""

    is_restricted = serializers.BooleanField(help_text="false: everybody has all rights.")
    grants = StorageGrantInput(many=True, required=False)


class StorageHostChange(InputSerializer):
    """Changes of a host; absent fields stay unchanged."""

    settings = serializers.DictField(
        child=TextField(check=check_setting, allow_blank=True),
        required=False,
        help_text="Of its kind. They are tried before they stay.",
    )
    is_active = serializers.BooleanField(required=False, help_text="New folders may be created there.")
    is_default = serializers.BooleanField(required=False, help_text="Only true is taken.")

    reach = serializers.ChoiceField(choices=StorageHost.Reach.values, required=False)
    agent_path = TextField(max_length=500, required=False, help_text="For `path`: where machines have it.")
    volume_options = VolumeOptionsInput(required=False, help_text="For `volume`.")
    secret = TextField(max_length=1000, required=False, help_text="Password of the share; never returned.")


class MachineReachOut(serializers.Serializer[Any]):
    agent = serializers.CharField()
    is_reached = serializers.BooleanField(allow_null=True, help_text="null: not looked at yet.")
    error = serializers.CharField(help_text="Why it does not reach the host.")
    checked_at = serializers.DateTimeField(allow_null=True)


class StorageSettingOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField(source="label")
    help = serializers.CharField()
    input = serializers.CharField(help_text="text, lines, number, choice or secret.")
    choices = serializers.ListField(child=serializers.CharField())
    default = serializers.CharField()
    example = serializers.CharField()
    is_required = serializers.BooleanField()


class StorageHostKindOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    summary = serializers.CharField()
    capabilities = serializers.SerializerMethodField(help_text="quota, usage, clone.")
    is_simulated = serializers.BooleanField(help_text="Tested with a double of the product only.")
    needs = serializers.CharField()
    lacks = serializers.ListField(
        child=serializers.CharField(), help_text="Programs that the portal's machine lacks."
    )
    settings = StorageSettingOut(many=True)

    def get_capabilities(self, kind: HostKind) -> list[str]:
        return sorted(kind.capabilities)


class StorageGrantOut(serializers.Serializer[Any]):
    holder = serializers.CharField()
    name = serializers.CharField(source="holder_name")
    rights = serializers.SerializerMethodField()

    def get_rights(self, grant: StorageGrant) -> list[str]:
        return right_names(grant.rights)


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
    kind = serializers.CharField(source="host.kind")
    settings = serializers.DictField(
        child=serializers.CharField(), source="host.config", help_text="Without secrets."
    )
    capabilities = serializers.SerializerMethodField()
    error = serializers.CharField(source="host.error", help_text="Why it is unhealthy; else empty.")
    checked_at = serializers.DateTimeField(source="host.checked_at", allow_null=True)
    total_bytes = serializers.IntegerField(source="host.total_bytes", help_text="0: unknown.")
    free_bytes = serializers.IntegerField(source="host.free_bytes")
    folder_bytes = serializers.IntegerField(
        source="host.folder_bytes", help_text="Of its folders, as measured."
    )
    folder_count = serializers.IntegerField(source="host.folder_count")
    is_restricted = serializers.BooleanField(source="host.is_restricted")
    grants = StorageGrantOut(many=True, source="host.grants.all")
    machines = serializers.SerializerMethodField()

    def get_capabilities(self, entry: HostEntry) -> list[str]:
        return sorted(entry.kind.capabilities) if entry.kind else []

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

    @extend_schema(
        operation_id="add_storage_host",
        request=StorageHostAdd,
        responses={201: StorageHostOut},
        tags=["storage"],
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Add a storage host: it is prepared, mounted and tried first. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = StorageHostAdd(data=request.data)
        data.is_valid(raise_exception=True)
        host = hosts.add_host(actor=actor, **{"settings": {}, **data.validated_data})
        return Response(StorageHostOut(host_entry(actor, host.pk)).data, status=201)


class StorageHostKindListView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="list_storage_host_kinds", responses=StorageHostKindOut(many=True), tags=["storage"]
    )
    def get(self, request: Request) -> Response:
        """List the kinds of storage hosts, their settings, and what this machine lacks. For superadmins."""
        require_superadmin(actor_of(request))
        return Response(StorageHostKindOut(list(KINDS.values()), many=True).data)


class StorageHostView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="change_storage_host",
        request=StorageHostChange,
        responses={200: StorageHostOut, 404: ErrorOut},
        tags=["storage"],
    )
    def patch(self, request: Request, storage_host_id: int) -> Response:
        """Change a storage host's settings, and how machines reach it; they are proven anew. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = StorageHostChange(data=request.data)
        data.is_valid(raise_exception=True)
        given = data.validated_data
        of_host = {name: given[name] for name in ("settings", "is_active", "is_default") if name in given}
        of_reach = {name: value for name, value in given.items() if name not in of_host}
        if of_host:
            hosts.change_host(actor=actor, host_id=storage_host_id, **of_host)
        if of_reach or not of_host:
            service.change_reach(actor=actor, host_id=storage_host_id, changes=of_reach)
        return Response(StorageHostOut(host_entry(actor, storage_host_id)).data)

    @extend_schema(
        operation_id="remove_storage_host",
        responses={204: None, 404: ErrorOut, 409: ErrorOut},
        tags=["storage"],
    )
    def delete(self, request: Request, storage_host_id: int) -> Response:
        """Remove a storage host without folders from Berth; its files stay. For superadmins."""
        hosts.remove_host(actor=actor_of(request), host_id=storage_host_id)
        return Response(status=204)


class StorageHostRightsView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="set_storage_host_rights",
        request=StorageRightsInput,
        responses={200: StorageHostOut, 404: ErrorOut},
        tags=["storage"],
    )
    def put(self, request: Request, storage_host_id: int) -> Response:
        """State which domains, projects and policies have which rights on a host's folders. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = StorageRightsInput(data=request.data)
        data.is_valid(raise_exception=True)
        given = data.validated_data
        grants = [
            hosts.Grant(each["holder"], each["name"], parse_rights(each["rights"]))
            for each in given.get("grants", ())
        ]
        restricted = grants if given["is_restricted"] else None
        hosts.restrict_host(actor=actor, host_id=storage_host_id, grants=restricted)
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
        """Check the host's health now, and have all machines prove again, within seconds, that they reach it.
        For superadmins.
        """
        actor = actor_of(request)
        hosts.probe_host(actor=actor, host_id=storage_host_id)
        service.check_host(actor=actor, host_id=storage_host_id)
        return Response(StorageHostOut(host_entry(actor, storage_host_id)).data, status=202)
