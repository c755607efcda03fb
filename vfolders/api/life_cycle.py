"""REST views of clones and of the trash."""

from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.token_scopes import FOR_FOLDERS
from vfolders import clones, trash
from vfolders.api.serializers import FolderCloneInput, FolderOut, FolderPurgeInput, FolderRestoreInput
from vfolders.core.modes import FolderMode
from vfolders.models import VFolder
from vfolders.selectors import trashed_folders

_REFUSALS = {403: ErrorOut, 404: ErrorOut, 409: ErrorOut}


class FolderCloneView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="clone_folder",
        request=FolderCloneInput,
        responses={201: FolderOut, 400: ErrorOut, 422: ErrorOut, **_REFUSALS},
    )
    @takes_idempotency_key
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Begin to copy the folder into a new one. The answer is the new folder, in the state
        `cloning`; it is `ready` when all is copied. Delete it to cancel.
        """
        wanted = FolderCloneInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = dict(wanted.validated_data)
        mode = FolderMode(values.pop("mode")) if "mode" in values else None
        folder = clones.clone_folder(actor=actor_of(request), folder_id=folder_id, mode=mode, **values)
        return Response(FolderOut(folder).data, status=201)


class FolderCloneRetryView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="retry_clone", request=None, responses={200: FolderOut, **_REFUSALS})
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Begin to copy anew into a folder whose clone stopped."""
        return Response(FolderOut(clones.retry_clone(actor=actor_of(request), folder_id=folder_id)).data)


class TrashView(generics.GenericAPIView[VFolder]):
    token_scopes = FOR_FOLDERS
    serializer_class = FolderOut
    queryset = VFolder.objects.none()

    def get_queryset(self) -> QuerySet[VFolder]:
        return trashed_folders(actor_of(self.request))

    @extend_schema(operation_id="list_trashed_folders", responses={200: FolderOut(many=True)}, filters=True)
    def get(self, request: Request) -> Response:
        """List the folders in the trash that you may restore, the first to expire first."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(FolderOut(page, many=True).data)


class FolderRestoreView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="restore_folder",
        request=FolderRestoreInput,
        responses={200: FolderOut, 400: ErrorOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Take the folder out of the trash."""
        wanted = FolderRestoreInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        folder = trash.restore_folder(actor=actor_of(request), folder_id=folder_id, **wanted.validated_data)
        return Response(FolderOut(folder).data)


class FolderPurgeView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="purge_folder",
        request=FolderPurgeInput,
        responses={204: None, 400: ErrorOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Delete a folder in the trash with all its content. Cannot be undone."""
        wanted = FolderPurgeInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        trash.purge_folder(actor=actor_of(request), folder_id=folder_id, **wanted.validated_data)
        return Response(status=204)
