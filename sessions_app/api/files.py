"""REST endpoints of the files of a running session (ADR 18). Bodies are streamed in both
directions; files are bytes whatever the client accepts.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import request_login
from agents.runtime.port_files import Entry, EntryType
from common.db.streaming import release_connection
from common.errors import InvalidInput
from common.http.downloads import attachment_header
from common.rest.actor import actor_of
from common.rest.content_types import AnyAccept
from common.rest.errors import ErrorOut
from common.token_scopes import FOR_SESSIONS
from sessions_app.container_io import files
from sessions_app.container_io.files import OpenFiles

UPLOAD_CHUNK_BYTES = 2**18
PATH = OpenApiParameter(
    "path", OpenApiTypes.STR, required=True, description="Absolute path, e.g. /home/work."
)
KERNEL = OpenApiParameter("kernel", OpenApiTypes.STR, description="Name of the container; default: main1.")
MODE = OpenApiParameter("mode", OpenApiTypes.STR, description="Permissions, e.g. 0755; default: 0644.")
BYTES, TAR = "application/octet-stream", "application/x-tar"


class SessionEntryOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    type = serializers.CharField(help_text=f"Type of the entry: {', '.join(EntryType)}.")
    size_bytes = serializers.IntegerField()
    mode = serializers.CharField(help_text="Permissions, e.g. 0644.")
    modified_at = serializers.DateTimeField()
    is_addressable = serializers.BooleanField(
        help_text="false if the name is not UTF-8, so that it cannot be requested here; the archive "
        "of its directory contains it."
    )
    target = serializers.CharField(
        allow_blank=True, help_text="Final target of a symbolic link; empty in lists."
    )


class SessionPathOut(SessionEntryOut):
    path = serializers.CharField()


class SessionDirectoryOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    entries = SessionEntryOut(many=True)
    is_complete = serializers.BooleanField(help_text="false if there are more entries than are listed.")


class SessionArchiveOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    entries = serializers.IntegerField()
    size_bytes = serializers.IntegerField()


class SessionDirectoryView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="list_session_directory",
        parameters=[PATH, KERNEL],
        responses={200: SessionDirectoryOut, 409: ErrorOut},
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """List a directory of a running session by name; at most 2,000 entries."""
        opened = _open_files(request, session_id)
        path, entries, is_complete = async_to_sync(files.list_directory)(opened, _path(request))
        shown = [_entry_json(entry) for entry in entries]
        return Response(
            SessionDirectoryOut({"path": path, "entries": shown, "is_complete": is_complete}).data
        )


class SessionPathView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="read_session_path",
        parameters=[PATH, KERNEL],
        responses={200: SessionPathOut, 409: ErrorOut},
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Show the entry at a path of a running session. A symbolic link is shown as a link."""
        path, entry = async_to_sync(files.stat_path)(_open_files(request, session_id), _path(request))
        return Response(SessionPathOut({"path": path, **_entry_json(entry)}).data)


class SessionFileView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS
    content_negotiation_class = AnyAccept
    http_method_names = ("get", "put", "options")

    @extend_schema(
        operation_id="read_session_file",
        parameters=[PATH, KERNEL],
        responses={(200, BYTES): OpenApiTypes.BINARY, 409: ErrorOut},
    )
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        """Download a file of a running session; symbolic links are followed."""
        opened = _open_files(request, session_id, action="sessions.read_file")
        found = async_to_sync(files.find_entry)(opened, _path(request), EntryType.FILE)
        response = _attachment(files.stream_file(found), BYTES, found.place.entry.name)
        response["Content-Length"] = str(found.place.entry.size_bytes)
        return response

    @extend_schema(
        operation_id="write_session_file",
        parameters=[PATH, MODE, KERNEL],
        request={BYTES: OpenApiTypes.BINARY},
        responses={200: SessionPathOut},
    )
    def put(self, request: Request, session_id: UUID) -> Response:
        """Create or replace a file with the raw body, atomically; missing directories are created."""
        opened = _open_files(request, session_id, action="sessions.write_file")
        path, entry = async_to_sync(files.write_file)(
            opened, _path(request), _chunks(request._request), request.query_params.get("mode", "")
        )
        return Response(SessionPathOut({"path": path, **_entry_json(entry)}).data)


class SessionArchiveView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS
    content_negotiation_class = AnyAccept
    http_method_names = ("get", "put", "options")

    @extend_schema(
        operation_id="read_session_archive",
        parameters=[PATH, KERNEL],
        responses={(200, TAR): OpenApiTypes.BINARY, 409: ErrorOut},
    )
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        """Download a directory of a running session as a tar; names are relative to it."""
        opened = _open_files(request, session_id, action="sessions.read_archive")
        found = async_to_sync(files.find_entry)(opened, _path(request), EntryType.DIRECTORY)
        name = f"{found.place.entry.name or 'root'}.tar"
        return _attachment(files.stream_directory(found), TAR, name)

    @extend_schema(
        operation_id="write_session_archive",
        parameters=[PATH, KERNEL],
        request={TAR: OpenApiTypes.BINARY},
        responses={200: SessionArchiveOut},
    )
    def put(self, request: Request, session_id: UUID) -> Response:
        """Unpack a tar into a directory of a running session, over existing files; atomically."""
        opened = _open_files(request, session_id, action="sessions.write_archive")
        path, counted = async_to_sync(files.write_archive)(opened, _path(request), _chunks(request._request))
        told = {"path": path, "entries": counted.entries, "size_bytes": counted.size_bytes}
        return Response(SessionArchiveOut(told).data)


def _open_files(request: Request, session_id: UUID, *, action: str = "") -> OpenFiles:
    """Check access, then close the database connection, because the engine may be slow."""
    kernel = request.query_params.get("kernel", "main1")
    opened = files.open_files(
        actor=actor_of(request),
        login=request_login(request),
        session_id=session_id,
        kernel_name=kernel,
        action=action,
    )
    release_connection()
    return opened


def _path(request: Request) -> str:
    if "path" not in request.query_params:
        raise InvalidInput(_("Say which path: ?path=/home/work."), fields={"path": [_("This is needed.")]})
    return request.query_params["path"]


async def _chunks(body: HttpRequest) -> AsyncIterator[bytes]:
    """Read the body, which Django has already stored on disk, without blocking the event loop."""
    while chunk := await asyncio.to_thread(body.read, UPLOAD_CHUNK_BYTES):
        yield chunk


def _entry_json(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "type": entry.type.value,
        "size_bytes": entry.size_bytes,
        "mode": f"{entry.mode:04o}",
        "modified_at": entry.modified_at,
        "is_addressable": entry.is_addressable,
        "target": entry.target,
    }


def _attachment(content: AsyncIterator[bytes], kind: str, name: str) -> StreamingHttpResponse:
    """Return a response that browsers only save and never display: the content is untrusted."""
    response = StreamingHttpResponse(content, content_type=kind)
    response["Content-Disposition"] = attachment_header(name)
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["X-Accel-Buffering"] = "no"
    return response
