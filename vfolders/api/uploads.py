"""Resumable uploads by TUS 1.0 (tus.io): creation, creation-with-upload, creation-defer-length,
checksum, concatenation, termination and expiration.

The metadata of an upload are `path` (in the folder; or `filename`, a name in its top directory) and
`if_exists`.
"""

import asyncio
import json
from typing import Any, ClassVar
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import http_date
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import request_login
from common.actors import Actor
from common.errors import BerthError, InvalidInput, PermissionDenied, invalid_field
from common.i18n import gettext as _
from common.rest.actor import actor_of
from common.rest.content_types import AnyAccept
from common.rest.errors import ErrorOut
from common.rest.request_body import Answer, RequestBody, with_body
from common.token_scopes import FOR_FOLDERS, may
from vfolders.access_watch import AccessWatch
from vfolders.api.parameters import IF_EXISTS, if_exists_of
from vfolders.core.permissions import Action
from vfolders.core.uploads import (
    CHECKSUMS,
    MAX_LENGTH,
    IfExists,
    UploadState,
    parse_checksum,
    parse_count,
    parse_metadata,
    parse_parts,
)
from vfolders.models import Upload
from vfolders.selectors import access_folder
from vfolders.uploads import resumable
from vfolders.uploads.bundles import BundleReceiver

VERSION = "1.0.0"
EXTENSIONS = (
    "creation,creation-with-upload,creation-defer-length,checksum,concatenation,termination,expiration"
)
PART_TYPE = "application/offset+octet-stream"
_PART = {PART_TYPE: OpenApiTypes.BINARY}
_REFUSALS = {
    400: ErrorOut,
    403: ErrorOut,
    404: ErrorOut,
    409: ErrorOut,
    412: ErrorOut,
    422: ErrorOut,
    423: ErrorOut,
}


def _header(name: str, text: str, *, is_required: bool = False) -> OpenApiParameter:
    return OpenApiParameter(
        name, OpenApiTypes.STR, OpenApiParameter.HEADER, description=text, required=is_required
    )


_VERSION = _header("Tus-Resumable", "1.0.0.")
_LENGTH = _header("Upload-Length", "Size of the whole file in bytes.")
_CHECKSUM = _header("Upload-Checksum", "sha1 or sha256 of the body, and the digest in Base64.")


class WrongVersion(BerthError):
    """The client speaks another version of TUS."""

    default_code = "wrong_version"
    http_status: ClassVar[int] = 412

    def headers(self) -> dict[str, str]:
        return {"Tus-Version": VERSION}


class WrongType(BerthError):
    """The body is not a part of an upload."""

    default_code = "wrong_type"
    http_status: ClassVar[int] = 415


class UploadOut(serializers.ModelSerializer[Upload]):
    class Meta:
        model = Upload
        fields = (
            "id",
            "path",
            "if_exists",
            "metadata",
            "length_bytes",
            "offset_bytes",
            "state",
            "created_at",
            "expires_at",
        )
        read_only_fields = fields


class TusView(APIView):
    """Base of both views: headers of the protocol."""

    is_private = True
    token_scopes = FOR_FOLDERS
    content_negotiation_class = AnyAccept

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Tell what the server can."""
        headers = {
            "Tus-Version": VERSION,
            "Tus-Extension": EXTENSIONS,
            "Tus-Checksum-Algorithm": ",".join(CHECKSUMS),
            "Tus-Max-Size": str(MAX_LENGTH),
        }
        return HttpResponse(status=204, headers=headers)

    def finalize_response(
        self, request: Request, response: HttpResponseBase, *args: Any, **kwargs: Any
    ) -> Any:
        response["Tus-Resumable"] = VERSION
        response["Cache-Control"] = "no-store"
        return super().finalize_response(request, response, *args, **kwargs)  # type: ignore[arg-type]


class UploadListView(TusView):
    streamed_methods = frozenset({"POST"})

    @extend_schema(operation_id="list_uploads", responses={200: UploadOut(many=True), 404: ErrorOut})
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List your own uploads into the folder that have not ended, oldest first, at most 1,000."""
        actor = actor_of(request)
        access_folder(actor, folder_id, Action.WRITE)
        open_ones = resumable.visible_uploads(actor, folder_id).filter(state=UploadState.RECEIVING.value)
        return Response(UploadOut(open_ones.exclude(concat="partial")[:1000], many=True).data)

    @extend_schema(
        operation_id="create_upload",
        parameters=[
            _VERSION,
            _LENGTH,
            _header("Upload-Defer-Length", "1 if the size is told later."),
            _header("Upload-Metadata", "path, and if_exists: replace, keep_both or refuse."),
            _header("Upload-Concat", "partial, or final; and the addresses of partial uploads."),
            _CHECKSUM,
        ],
        request=_PART,
        responses={201: None, 415: ErrorOut, 460: ErrorOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> HttpResponse:
        """Create a resumable upload by TUS 1.0; Location is its address. The body may be its first part."""
        actor, concat = actor_of(request), request.headers.get("Upload-Concat", "")
        access_folder(actor, folder_id, Action.WRITE)
        _check_version(request)
        watch = _watch(request, actor, folder_id)
        if concat.startswith("final;"):
            return self._join(request, actor, folder_id, watch)
        if concat not in ("", "partial"):
            raise InvalidInput(_("Upload-Concat must be “partial”, or begin with “final;”."))
        content_type = _body_type(request)
        if content_type and content_type != PART_TYPE:
            raise _wrong_type()
        checksum = _checksum(request)
        upload = _create(request, actor, folder_id, _length(request, may_be_deferred=True), concat)

        async def receive(body: RequestBody) -> Answer:
            received = upload
            if content_type or upload.length_bytes == 0:
                received = await resumable.receive_part(
                    body, actor=actor, upload=upload, offset=0, watch=watch, checksum=checksum
                )
            return Answer(201, headers={"Location": _address(upload), **_progress(received)})

        return with_body(request._request, receive)

    def _join(self, request: Request, actor: Actor, folder_id: UUID, watch: AccessWatch) -> HttpResponse:
        concat = request.headers["Upload-Concat"]
        with invalid_field("Upload-Concat"):
            part_ids = parse_parts(concat)
        parts = resumable.find_parts(actor=actor, folder_id=folder_id, part_ids=part_ids)
        length = sum(part.offset_bytes for part in parts)
        upload = _create(request, actor, folder_id, length, concat)

        async def join(body: RequestBody) -> Answer:
            joined = await resumable.join_parts(actor=actor, upload=upload, parts=parts, watch=watch)
            return Answer(201, headers={"Location": _address(upload), **_progress(joined)})

        return with_body(request._request, join)


class BundledFileOut(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Path in the folder.")
    size_bytes = serializers.IntegerField(required=False)
    error = ErrorOut(required=False, help_text="Only if this file was refused.")


class BundleOut(serializers.Serializer[Any]):
    files = BundledFileOut(many=True)
    error = ErrorOut(
        required=False, help_text="Only if the bundle ended early: files without a result are not stored."
    )


class BundleView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS
    content_negotiation_class = AnyAccept
    streamed_methods = frozenset({"POST"})

    @extend_schema(
        operation_id="write_files",
        parameters=[IF_EXISTS],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: BundleOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> HttpResponse:
        """Create or replace many small files, of at most 1 MiB each, in one request.

        The body is at most 10,000 files, one after another: a line of JSON, {"path": "dir/a.txt",
        "size": 3}, then the bytes. Each file is stored whole or not at all; the answer tells of each.
        """
        actor = actor_of(request)
        folder = access_folder(actor, folder_id, Action.WRITE)
        receiver = BundleReceiver(
            actor=actor,
            folder=folder,
            if_exists=if_exists_of(request),
            watch=_watch(request, actor, folder_id),
        )

        async def receive(body: RequestBody) -> Answer:
            told: dict[str, Any] = {"files": receiver.results}
            try:
                await receiver.receive(body)
            except BerthError as error:
                if not receiver.results:
                    raise
                told["error"] = error.to_json()
            return Answer(content=await asyncio.to_thread(_as_json, told))  # it may be megabytes

        return with_body(request._request, receive)


def _as_json(told: dict[str, Any]) -> bytes:
    return json.dumps(told, cls=DjangoJSONEncoder).encode()


class UploadView(TusView):
    streamed_methods = frozenset({"PATCH"})

    @extend_schema(operation_id="read_upload", responses={200: UploadOut, 404: ErrorOut})
    def get(self, request: Request, folder_id: UUID, upload_id: UUID) -> Response:
        """Return one of your uploads; the path of a finished one is the one that the file got."""
        return Response(UploadOut(resumable.access_upload(actor_of(request), folder_id, upload_id)).data)

    @extend_schema(exclude=True)
    def head(self, request: Request, folder_id: UUID, upload_id: UUID) -> HttpResponse:
        """Return in headers how much has been received."""
        actor = actor_of(request)
        upload = resumable.access_upload(actor, folder_id, upload_id)
        _check_version(request)
        keypair: Any = request.auth
        may_write = keypair is None or may(keypair.scopes, FOR_FOLDERS)
        if upload.state == UploadState.RECEIVED and not upload.is_partial and may_write:
            resumable.publish(actor=actor, upload=upload)  # a process died before it could
        headers = _progress(upload)
        if upload.length_bytes is None:
            headers["Upload-Defer-Length"] = "1"
        else:
            headers["Upload-Length"] = str(upload.length_bytes)
        if upload.metadata:
            headers["Upload-Metadata"] = upload.metadata
        if upload.concat:
            headers["Upload-Concat"] = upload.concat
        return HttpResponse(status=200, headers=headers)

    @extend_schema(
        operation_id="append_to_upload",
        parameters=[
            _VERSION,
            _header("Upload-Offset", "Bytes received before, which HEAD returns.", is_required=True),
            _LENGTH,
            _CHECKSUM,
        ],
        request=_PART,
        responses={204: None, 415: ErrorOut, 460: ErrorOut, **_REFUSALS},
    )
    def patch(self, request: Request, folder_id: UUID, upload_id: UUID) -> HttpResponse:
        """Append a part. What is received stays so, whatever happens; the last byte makes the file."""
        actor = actor_of(request)
        upload = resumable.access_upload(actor, folder_id, upload_id)
        _check_version(request)
        watch = _watch(request, actor, folder_id)
        if upload.concat.startswith("final;"):
            raise PermissionDenied(_("This upload was put together from parts; nothing can be appended."))
        if _body_type(request) != PART_TYPE:
            raise _wrong_type()
        with invalid_field("Upload-Offset"):
            offset = parse_count("Upload-Offset", request.headers.get("Upload-Offset", ""))
        checksum, length = _checksum(request), _length(request, may_be_deferred=True)

        async def receive(body: RequestBody) -> Answer:
            received = await resumable.receive_part(
                body, actor=actor, upload=upload, offset=offset, watch=watch, checksum=checksum,
                length_bytes=length,
            )  # fmt: skip
            return Answer(204, headers=_progress(received))

        return with_body(request._request, receive)

    @extend_schema(operation_id="delete_upload", responses={204: None, **_REFUSALS})
    def delete(self, request: Request, folder_id: UUID, upload_id: UUID) -> HttpResponse:
        """Remove an upload with what was received; the file of a finished one stays."""
        upload = resumable.access_upload(actor_of(request), folder_id, upload_id)
        _check_version(request)
        resumable.remove(upload)
        return HttpResponse(status=204)


def _check_version(request: Request) -> None:
    if request.headers.get("Tus-Resumable") != VERSION:
        raise WrongVersion(_("Send the header “Tus-Resumable: {version}”.").format(version=VERSION))


def _create(request: Request, actor: Actor, folder_id: UUID, length: int | None, concat: str) -> Upload:
    text = request.headers.get("Upload-Metadata", "")
    with invalid_field("Upload-Metadata"):
        metadata = parse_metadata(text)
        if_exists = IfExists(metadata.get("if_exists", IfExists.REPLACE))
    return resumable.create_upload(
        actor=actor, folder_id=folder_id, path=metadata.get("path") or metadata.get("filename", ""),
        length_bytes=length, if_exists=if_exists, concat=concat, metadata=text,
    )  # fmt: skip


def _length(request: Request, *, may_be_deferred: bool) -> int | None:
    text = request.headers.get("Upload-Length")
    if text is None:
        is_deferred = request.headers.get("Upload-Defer-Length") == "1" or request.method == "PATCH"
        if may_be_deferred and is_deferred:
            return None
        text = ""
    with invalid_field("Upload-Length"):
        return parse_count("Upload-Length", text)


def _checksum(request: Request) -> Any:
    with invalid_field("Upload-Checksum"):
        return parse_checksum(request.headers.get("Upload-Checksum", ""))


def _watch(request: Request, actor: Actor, folder_id: UUID) -> AccessWatch:
    return AccessWatch(actor, folder_id, Action.WRITE, login=request_login(request))


def _body_type(request: Request) -> str:
    """Return the type of the body; "" if there is none."""
    django_request: HttpRequest = request._request
    has_body = (
        django_request.headers.get("Content-Length", "0") != "0"
        or "Transfer-Encoding" in django_request.headers
    )
    return django_request.content_type or "-" if has_body or request.method == "PATCH" else ""


def _wrong_type() -> WrongType:
    return WrongType(_("Send the part as “Content-Type: {type}”.").format(type=PART_TYPE))


def _address(upload: Upload) -> str:
    return reverse("api-folder-upload", args=[upload.folder_id, upload.pk])


def _progress(upload: Upload) -> dict[str, str]:
    return {
        "Upload-Offset": str(upload.offset_bytes),
        "Upload-Expires": http_date(upload.expires_at.timestamp()),
    }
