"""REST views of the accelerator vendors."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.selectors import require_superadmin
from agents.accelerators.device_files import (
    CAPABILITIES,
    MAX_MEM_BYTES,
    MAX_TITLE,
    MOST_PATHS,
    DeviceFileVendor,
)
from agents.models import VendorFile
from agents.vendors import service
from agents.vendors.selectors import access_vendor_file, vendor_entries, vendor_entry
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN

_DEVICE = "File of a device, with {n} for its number, like /dev/card{n}; without {n}, one device per machine."
_ALSO = "Further files, of each device (with {n}) or of all. An ending * is any end; a ? allows absence."
_BINDS = "Files or directories below /opt or /usr that sessions see, read-only."
_SEVERAL = (
    "true: the driver serves several programs at once, so sessions may get parts of a device, without limits."
)
_VARIABLES = "Environment variables; {n*} is the numbers of all devices, joined by commas."


def _paths(**options: Any) -> serializers.ListField:
    return serializers.ListField(
        child=TextField(max_length=200), max_length=MOST_PATHS, required=False, **options
    )


class VendorFileChange(InputSerializer):
    """Changes of an own vendor; absent fields stay unchanged."""

    title = TextField(max_length=MAX_TITLE, required=False)
    model = TextField(max_length=MAX_TITLE, required=False, help_text="Name of the devices.")
    device = TextField(max_length=200, required=False, help_text=_DEVICE)
    mem_bytes = serializers.IntegerField(
        min_value=0, max_value=MAX_MEM_BYTES, required=False, help_text="Memory of a device; 0: unknown."
    )
    also = _paths(help_text=_ALSO)
    binds = _paths(help_text=_BINDS)
    variables = serializers.DictField(
        child=TextField(max_length=1000, allow_blank=True), required=False, help_text=_VARIABLES
    )
    capabilities = serializers.ListField(child=serializers.ChoiceField(choices=CAPABILITIES), required=False)
    has_groups = serializers.BooleanField(
        required=False, help_text="true: programs join the groups that own the files."
    )
    locks_memory = serializers.BooleanField(required=False, help_text="true: locked memory is unlimited.")
    takes_several = serializers.BooleanField(required=False, help_text=_SEVERAL)


class VendorFileInput(VendorFileChange):
    name = TextField(max_length=31, help_text="Name of the vendor, and of the resource to request.")
    title = TextField(max_length=MAX_TITLE)
    model = TextField(max_length=MAX_TITLE, help_text="Name of the devices.")
    device = TextField(max_length=200, help_text=_DEVICE)


class VendorFormOut(serializers.Serializer[Any]):
    device = serializers.CharField(help_text=_DEVICE)
    model = serializers.CharField()
    mem_bytes = serializers.IntegerField()
    also = serializers.ListField(child=serializers.CharField(), help_text=_ALSO)
    binds = serializers.ListField(child=serializers.CharField(), help_text=_BINDS)
    variables = serializers.DictField(child=serializers.CharField(), help_text=_VARIABLES)
    capabilities = serializers.ListField(child=serializers.CharField())
    has_groups = serializers.BooleanField()
    locks_memory = serializers.BooleanField()
    takes_several = serializers.BooleanField(help_text=_SEVERAL)


class VendorOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(allow_null=True, help_text="null for vendors that Berth ships.")
    name = serializers.CharField(source="description.name")
    title = serializers.CharField(source="description.title")
    slot = serializers.CharField(source="description.slot", help_text="Name of the resource to request.")
    verified = serializers.CharField(
        source="description.verified.by",
        help_text="Proof of the description: none, fixture (recorded answers) or hardware.",
    )
    note = serializers.CharField(source="description.verified.note")
    is_measured = serializers.SerializerMethodField(help_text="true if the use of devices is measured.")
    form = VendorFormOut(allow_null=True, help_text="Values of an own vendor.")

    def get_is_measured(self, entry: Any) -> bool:
        return bool(entry.description.is_measured)


class VendorListView(GenericAPIView[VendorFile]):
    token_scopes = FOR_ADMIN
    serializer_class = VendorOut
    pagination_class = StandardPagination
    queryset = VendorFile.objects.none()

    @extend_schema(operation_id="list_accelerator_vendors", responses=VendorOut(many=True))
    def get(self, request: Request) -> Response:
        """List the accelerator vendors, those that Berth ships and own ones, by title. For superadmins."""
        entries: Any = vendor_entries(actor_of(request))
        return self.get_paginated_response(VendorOut(self.paginate_queryset(entries), many=True).data)

    @extend_schema(
        operation_id="create_accelerator_vendor",
        request=VendorFileInput,
        responses={201: VendorOut, 409: ErrorOut},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Add a vendor by its device files. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = VendorFileInput(data=request.data)
        data.is_valid(raise_exception=True)
        row = service.create_vendor_file(actor=actor, form=DeviceFileVendor.from_json(data.validated_data))
        return Response(VendorOut(vendor_entry(row)).data, status=201)


class VendorView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_accelerator_vendor", responses=VendorOut)
    def get(self, request: Request, vendor_id: int) -> Response:
        """Return an own vendor. For superadmins."""
        return Response(VendorOut(vendor_entry(access_vendor_file(actor_of(request), vendor_id))).data)

    @extend_schema(operation_id="change_accelerator_vendor", request=VendorFileChange, responses=VendorOut)
    def patch(self, request: Request, vendor_id: int) -> Response:
        """Change an own vendor, except for its name. For superadmins."""
        actor = actor_of(request)
        access_vendor_file(actor, vendor_id)
        data = VendorFileChange(data=request.data)
        data.is_valid(raise_exception=True)
        row = service.change_vendor_file(actor=actor, vendor_id=vendor_id, changes=data.validated_data)
        return Response(VendorOut(vendor_entry(row)).data)

    @extend_schema(operation_id="delete_accelerator_vendor", responses={204: None})
    def delete(self, request: Request, vendor_id: int) -> Response:
        """Delete an own vendor; sessions keep the devices that they have. For superadmins."""
        service.delete_vendor_file(actor=actor_of(request), vendor_id=vendor_id)
        return Response(status=204)
