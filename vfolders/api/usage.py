"""REST views of quotas, limits, sizes of directories and totals."""

from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.selectors import require_superadmin
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import query_value
from common.token_scopes import FOR_ADMIN, FOR_FOLDERS
from vfolders.api.serializers import FolderOut
from vfolders.api.usage_serializers import (
    ByteLimitOut,
    DirectoryReportOut,
    FolderQuotaInput,
    HostLimitsInput,
    HostLimitsOut,
    StorageStatusOut,
    TotalOut,
)
from vfolders.core.permissions import Action
from vfolders.models import StorageHost, VFolder
from vfolders.quotas import service
from vfolders.quotas.selectors import byte_limits
from vfolders.quotas.status import storage_status
from vfolders.reports import directories, totals
from vfolders.selectors import SHOWN, access_folder

_REFUSALS = {403: ErrorOut, 404: ErrorOut}
_PATH = OpenApiParameter(
    "path", OpenApiTypes.STR, description="Directory in the folder; default: the folder itself."
)
_HOST = OpenApiParameter(
    "host", OpenApiTypes.STR, description="Only folders on the storage host of this name."
)


class FolderQuotaView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="set_folder_quota",
        request=FolderQuotaInput,
        responses={200: FolderOut, 400: ErrorOut, **_REFUSALS},
        tags=["folders"],
    )
    def put(self, request: Request, folder_id: UUID) -> Response:
        """Set or remove the quota of a folder. One that an administrator set is changed by administrators
        only.
        """
        data = FolderQuotaInput(data=request.data)
        data.is_valid(raise_exception=True)
        folder = service.set_folder_quota(actor=actor_of(request), folder_id=folder_id, **data.validated_data)
        return Response(FolderOut(folder).data)


class FolderLimitsView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="list_folder_limits",
        responses={200: ByteLimitOut(many=True), 404: ErrorOut},
        tags=["folders"],
    )
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List all limits of bytes that apply to a folder, from the widest down."""
        folder = access_folder(actor_of(request), folder_id, Action.VIEW, states=SHOWN)
        return Response(ByteLimitOut(byte_limits([folder]), many=True).data)


class DirectoryUsageView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="read_directory_usage",
        parameters=[_PATH],
        responses={200: DirectoryReportOut, **_REFUSALS},
        tags=["folders"],
    )
    def get(self, request: Request, folder_id: UUID) -> Response:
        """Return what fills a directory of the folder, as counted last."""
        report = directories.read_directories(actor_of(request), folder_id, query_value(request, "path"))
        return Response(DirectoryReportOut(report).data)

    @extend_schema(
        operation_id="count_directory_usage",
        request=None,
        responses={202: DirectoryReportOut, **_REFUSALS},
        tags=["folders"],
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Count the folder's directories again, in the background; reading tells when it is done."""
        actor = actor_of(request)
        directories.request_count(actor=actor, folder_id=folder_id)
        report = directories.read_directories(actor, folder_id)
        return Response(DirectoryReportOut(report).data, status=202)


class StorageStatusView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="read_storage_status", responses={200: StorageStatusOut}, tags=["storage"])
    def get(self, request: Request) -> Response:
        """Return how much storage you use, on which hosts, and the limits that apply to you."""
        return Response(StorageStatusOut(storage_status(actor_of(request))).data)


class FolderFilter(filters.FilterSet):
    owner = filters.CharFilter("owner__email", lookup_expr="icontains", label="Part of the owner's e-mail.")
    project = filters.CharFilter("project__name", label="Name of the project.")
    host = filters.CharFilter("host__name", label="Name of the storage host.")
    state = filters.CharFilter("state", label="ready, cloning or trashed.")
    min_bytes = filters.NumberFilter("size_bytes", lookup_expr="gte", label="At least this size.")

    class Meta:
        model = VFolder
        fields = ("owner", "project", "host", "state", "min_bytes")


class AdministeredFolderListView(generics.GenericAPIView[VFolder]):
    token_scopes = FOR_ADMIN
    serializer_class = FolderOut
    queryset = VFolder.objects.none()
    filterset_class = FolderFilter

    def get_queryset(self) -> QuerySet[VFolder]:
        return totals.administered_folders(actor_of(self.request)).order_by("-size_bytes", "pk")

    @extend_schema(
        operation_id="list_administered_folders",
        responses={200: FolderOut(many=True)},
        filters=True,
        tags=["storage"],
    )
    def get(self, request: Request) -> Response:
        """List all folders that you administer or monitor, also in the trash, the biggest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(FolderOut(page, many=True).data)


class TotalListView(generics.GenericAPIView[Model]):
    """Totals by one kind of owner, biggest first; empty for those who oversee none."""

    token_scopes = FOR_ADMIN
    serializer_class = TotalOut
    queryset = VFolder.objects.none()

    def _list(self, rows: QuerySet[Any]) -> Response:
        page = self.paginate_queryset(rows.order_by("-used_bytes", "pk"))
        return self.get_paginated_response(TotalOut(page, many=True).data)


class UserTotalListView(TotalListView):
    @extend_schema(
        operation_id="list_user_storage",
        parameters=[_HOST],
        responses={200: TotalOut(many=True)},
        tags=["storage"],
    )
    def get(self, request: Request) -> Response:
        """List how much storage each user uses."""
        return self._list(totals.user_totals(actor_of(request), query_value(request, "host")))


class ProjectTotalListView(TotalListView):
    @extend_schema(
        operation_id="list_project_storage",
        parameters=[_HOST],
        responses={200: TotalOut(many=True)},
        tags=["storage"],
    )
    def get(self, request: Request) -> Response:
        """List how much storage each project uses."""
        return self._list(totals.project_totals(actor_of(request), query_value(request, "host")))


class HostTotalListView(TotalListView):
    @extend_schema(operation_id="list_host_storage", responses={200: TotalOut(many=True)}, tags=["storage"])
    def get(self, request: Request) -> Response:
        """List how much is stored on each storage host. For superadmins and monitors."""
        return self._list(totals.host_totals(actor_of(request)))


class HostLimitsView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="set_host_limits",
        request=HostLimitsInput,
        responses={200: HostLimitsOut, 400: ErrorOut, **_REFUSALS},
        tags=["storage"],
    )
    def put(self, request: Request, storage_host_id: int) -> Response:
        """Set the limits of bytes of a storage host; null is unlimited. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = HostLimitsInput(data=request.data)
        data.is_valid(raise_exception=True)
        host: StorageHost = service.set_host_limits(
            actor=actor, host_id=storage_host_id, **data.validated_data
        )
        return Response(HostLimitsOut(host).data)
