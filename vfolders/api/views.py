"""REST views of folders and their files.
File bodies are streamed in both directions, whatever Accept header a client sends.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import request_login
from common.errors import invalid_field
from common.rest.actor import actor_of
from common.rest.content_types import AnyAccept
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.request_body import Answer, RequestBody, with_body
from common.token_scopes import FOR_FOLDERS
from vfolders import services, trash
from vfolders.access_watch import AccessWatch
from vfolders.api.parameters import IF_EXISTS, if_exists_of
from vfolders.api.serializers import (
    DirectoryCreateInput,
    DirectoryOut,
    EntryOut,
    FolderCreateInput,
    FolderOut,
    FolderUpdateInput,
    UsageOut,
)
from vfolders.core.modes import FolderMode
from vfolders.core.paths import parse_path
from vfolders.core.permissions import Action
from vfolders.files import service
from vfolders.files.http_download import download
from vfolders.models import VFolder
from vfolders.selectors import SHOWN, access_folder, visible_folders
from vfolders.uploads.whole_files import receive_file

_RANGE = OpenApiParameter(
    "Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Range of bytes, as bytes=<first>-<last>."
)
_REFUSALS = {403: ErrorOut, 404: ErrorOut, 409: ErrorOut}


class FolderListView(generics.GenericAPIView[VFolder]):
    token_scopes = FOR_FOLDERS
    serializer_class = FolderOut
    queryset = VFolder.objects.none()

    def get_queryset(self) -> QuerySet[VFolder]:
        return visible_folders(actor_of(self.request))

    @extend_schema(operation_id="list_folders", responses={200: FolderOut(many=True)}, filters=True)
    def get(self, request: Request) -> Response:
        """List the folders that you may see, by name."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(FolderOut(page, many=True).data)

    @extend_schema(
        operation_id="create_folder",
        request=FolderCreateInput,
        responses={201: FolderOut, 400: ErrorOut, **_REFUSALS},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create an empty folder."""
        wanted = FolderCreateInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = {**wanted.validated_data, "mode": FolderMode(wanted.validated_data["mode"])}
        folder = services.create_folder(actor=actor_of(request), **values)
        return Response(FolderOut(folder).data, status=201)


class FolderView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="read_folder", responses={200: FolderOut, 404: ErrorOut})
    def get(self, request: Request, folder_id: UUID) -> Response:
        """Return one folder: usable, being copied, or in the trash."""
        folder = access_folder(actor_of(request), folder_id, Action.VIEW, states=SHOWN)
        return Response(FolderOut(folder).data)

    @extend_schema(
        operation_id="update_folder",
        request=FolderUpdateInput,
        responses={200: FolderOut, 400: ErrorOut, **_REFUSALS},
    )
    def patch(self, request: Request, folder_id: UUID) -> Response:
        """Rename the folder, or change its mode. Sessions that run keep their mount path."""
        wanted = FolderUpdateInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        actor, values = actor_of(request), wanted.validated_data
        with transaction.atomic():
            folder = access_folder(actor, folder_id, Action.MANAGE)
            if "mode" in values:
                folder = services.change_mode(
                    actor=actor, folder_id=folder_id, mode=FolderMode(values["mode"])
                )
            if "name" in values:
                folder = services.rename_folder(actor=actor, folder_id=folder_id, name=values["name"])
        return Response(FolderOut(folder).data)

    @extend_schema(operation_id="delete_folder", responses={204: None, **_REFUSALS})
    def delete(self, request: Request, folder_id: UUID) -> Response:
        """Put the folder in the trash, from where it can be restored until it expires; cancel a clone
        under way. Refused while a live session mounts it.
        """
        trash.trash_folder(actor=actor_of(request), folder_id=folder_id)
        return Response(status=204)


class FolderUsageView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="read_folder_usage", responses={200: UsageOut, 404: ErrorOut})
    def get(self, request: Request, folder_id: UUID) -> Response:
        """Measure the folder now and return its size."""
        return Response(UsageOut(service.measure_folder(actor=actor_of(request), folder_id=folder_id)).data)


class DirectoryView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="make_directory",
        request=DirectoryCreateInput,
        responses={201: EntryOut, 400: ErrorOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Create a directory in the folder."""
        wanted = DirectoryCreateInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        path = wanted.validated_data["path"]
        entry = service.make_directory(actor=actor_of(request), folder_id=folder_id, path=path)
        return Response(EntryOut(entry).data, status=201)


class RootDirectoryView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="list_root_directory", responses={200: DirectoryOut, 403: ErrorOut, 404: ErrorOut}
    )
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List the folder's top directory: directories first, at most 10,000 entries."""
        return _directory(request, folder_id, "")


class FileView(APIView):
    is_private = True
    streamed_methods = frozenset({"PUT"})
    token_scopes = FOR_FOLDERS
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="read_file",
        parameters=[_RANGE],
        responses={
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
            (200, "application/json"): DirectoryOut,
            (206, "application/octet-stream"): OpenApiTypes.BINARY,
            304: None,
            416: None,
            **_REFUSALS,
        },
    )
    def get(self, request: Request, folder_id: UUID, path: str) -> HttpResponseBase:
        """Return the content of a file, as an attachment; a directory is listed as JSON instead."""
        actor = actor_of(request)
        if service.is_directory(actor=actor, folder_id=folder_id, path=path):
            return _directory(request, folder_id, path)
        opened = service.open_file(actor=actor, folder_id=folder_id, path=path)
        watch = AccessWatch(actor, folder_id, Action.READ, login=request_login(request))
        return download(_plain(request), opened, path.rpartition("/")[2], watch)

    @extend_schema(
        operation_id="write_file",
        parameters=[IF_EXISTS],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: EntryOut, 400: ErrorOut, 422: ErrorOut, **_REFUSALS},
    )
    def put(self, request: Request, folder_id: UUID, path: str) -> HttpResponse:
        """Create or replace a file with the raw body of the request; missing parent directories are
        created. Nothing is replaced before the whole body has arrived.
        """
        actor = actor_of(request)
        folder = access_folder(actor, folder_id, Action.WRITE)
        with invalid_field("path"):
            components = parse_path(path)
        if_exists = if_exists_of(request)
        watch = AccessWatch(actor, folder_id, Action.WRITE, login=request_login(request))

        async def receive(body: RequestBody) -> Answer:
            published = await receive_file(
                body, actor=actor, folder=folder, path=components, watch=watch, if_exists=if_exists
            )
            return Answer(content=EntryOut(published.entry).data)

        return with_body(_plain(request), receive)

    @extend_schema(operation_id="delete_entry", responses={204: None, **_REFUSALS})
    def delete(self, request: Request, folder_id: UUID, path: str) -> Response:
        """Delete a file, or a directory with all its content."""
        service.delete_entry(actor=actor_of(request), folder_id=folder_id, path=path)
        return Response(status=204)


def _directory(request: Request, folder_id: UUID, path: str) -> Response:
    listing = service.list_directory(actor=actor_of(request), folder_id=folder_id, path=path)
    body = {"path": path, "entries": listing.entries, "is_complete": listing.is_complete}
    return Response(DirectoryOut(body).data)


def _plain(request: Request) -> HttpRequest:
    """Return Django's request: DRF takes a body without Content-Length (chunked) for an empty one."""
    return request._request
