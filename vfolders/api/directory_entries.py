"""REST of the entries of folders: pages of directories, operations on many entries, the trash, search
and ZIP archives.
"""

import base64
import binascii
import json
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import request_login
from common.errors import InvalidInput, invalid_field
from common.i18n import gettext as _
from common.rest.actor import actor_of
from common.rest.content_types import AnyAccept
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_FOLDERS
from vfolders.access_watch import AccessWatch
from vfolders.api.serializers import EntryOut
from vfolders.core.paths import display_name, is_addressable
from vfolders.core.permissions import Action
from vfolders.files import operations, service
from vfolders.files.streams import search, zip_download
from vfolders.files.texts import read_text, save_text
from vfolders.models import FileOperation
from vfolders.storage.base import Entry
from vfolders.storage.listing import After, Order, Page
from vfolders.storage.trees import NameTaken

_REFUSALS = {400: ErrorOut, 403: ErrorOut, 404: ErrorOut, 409: ErrorOut}
_PATH = OpenApiParameter("path", OpenApiTypes.STR, description="Directory in the folder; empty: its top.")

_FILE = OpenApiParameter("path", OpenApiTypes.STR, required=True, description="File in the folder.")


class PageOut(serializers.Serializer[Any]):
    path = serializers.CharField(allow_blank=True)
    total = serializers.IntegerField(help_text="Entries of the whole directory.")
    after = serializers.CharField(
        allow_null=True, help_text="`after` of the request for the next page; null on the last one."
    )
    entries = EntryOut(many=True)


class PathsInput(InputSerializer):
    paths = serializers.ListField(
        child=serializers.CharField(max_length=3072, trim_whitespace=False),
        min_length=1,
        max_length=operations.MOST_PATHS,
        help_text="Paths of entries in the folder.",
    )


class OperationInput(PathsInput):
    kind = serializers.ChoiceField(
        choices=[(kind.value, kind.value) for kind in FileOperation.Kind],
        help_text="copy, move (also to rename), or unpack (ZIP, tar, tar.gz, tar.bz2).",
    )
    to = TextField(
        max_length=3072,
        required=False,
        allow_blank=True,
        default="",
        help_text="Target directory; empty: the top of the folder.",
    )
    to_folder = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="Target folder; default: the same."
    )
    name = TextField(
        max_length=255,
        required=False,
        allow_blank=True,
        default="",
        help_text="New name of the only entry; of an unpacked archive, the new directory for its content.",
    )
    taken = serializers.ChoiceField(
        choices=[each.value for each in NameTaken],
        required=False,
        default=NameTaken.REFUSE.value,
        help_text="What happens if a name is taken. A replaced entry goes to the trash of the folder.",
    )


class OperationOut(serializers.ModelSerializer[FileOperation]):
    state = serializers.ChoiceField(choices=["waiting", "running", "done", "failed", "cancelled"])
    paths = serializers.ListField(child=serializers.CharField(), help_text="Paths of the new entries.")
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="Links and devices that were left out; at most 100."
    )

    class Meta:
        model = FileOperation
        fields = (
            "id", "kind", "state", "source", "folder", "created_at", "ended_at", "entries_done", "bytes_done",
            "bytes_total", "paths", "left_out", "error",
        )  # fmt: skip
        read_only_fields = fields


class BatchOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    deleted_at = serializers.DateTimeField()
    paths = serializers.SerializerMethodField(help_text="The first of the deleted entries.")

    def get_paths(self, batch: Any) -> list[str]:
        return [display_name("/".join(path)) for path in batch.paths]


class TrashedOut(serializers.Serializer[Any]):
    batch = serializers.CharField(help_text="Restores the entries: …/trash/<batch>/restore/.")


class TextOut(serializers.Serializer[Any]):
    text = serializers.CharField(allow_blank=True, help_text="Line breaks are \\n.")
    encoding = serializers.CharField()
    newline = serializers.CharField(trim_whitespace=False, help_text="Line breaks of the file.")
    etag = serializers.CharField()


class TextInput(InputSerializer):
    text = serializers.CharField(allow_blank=True, trim_whitespace=False)
    encoding = serializers.CharField(max_length=40, required=False, default="utf-8")
    newline = serializers.CharField(max_length=2, required=False, default="\n", trim_whitespace=False)
    etag = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        default="",
        help_text="`etag` of the text that was read; empty: the file must not be there yet.",
    )


class SavedOut(serializers.Serializer[Any]):
    etag = serializers.CharField()


class EntriesView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="list_entries",
        parameters=[
            _PATH,
            OpenApiParameter("sort", OpenApiTypes.STR, enum=[each.value for each in Order]),
            OpenApiParameter("descending", OpenApiTypes.BOOL),
            OpenApiParameter("after", OpenApiTypes.STR, description="`after` of the page before."),
            OpenApiParameter("limit", OpenApiTypes.INT, description="At most 10,000; default 1,000."),
        ],
        responses={200: PageOut, **_REFUSALS},
    )
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List a page of a directory: directories first. Pages stay right while entries come and go."""
        asked = request.query_params
        path = asked.get("path", "")
        page = service.list_page(
            actor=actor_of(request),
            folder_id=folder_id,
            path=path,
            order=_order(asked.get("sort", Order.NAME.value)),
            is_descending=asked.get("descending", "") in {"1", "true"},
            after=_after(asked.get("after", "")),
            limit=_limit(asked.get("limit", "1000")),
        )
        return Response(page_json(path, page))


class OperationsView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="start_file_operation",
        request=OperationInput,
        responses={200: OperationOut, 202: OperationOut, 422: ErrorOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Copy, move or unpack entries. 200: it is done; 202: it goes on in the background."""
        wanted = OperationInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        given = wanted.validated_data
        wish = operations.Wish(
            **{**given, "kind": FileOperation.Kind(given["kind"]), "taken": NameTaken(given["taken"])}
        )
        operation = operations.operate(actor=actor_of(request), folder_id=folder_id, wish=wish)
        return Response(OperationOut(operation).data, status=200 if operation.ended_at else 202)


class OperationView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="read_file_operation", responses={200: OperationOut, 404: ErrorOut})
    def get(self, request: Request, operation_id: UUID) -> Response:
        """Return one of your operations with its progress, up to a day after its end."""
        return Response(OperationOut(operations.access_operation(actor_of(request), operation_id)).data)

    @extend_schema(operation_id="cancel_file_operation", responses={200: OperationOut, 404: ErrorOut})
    def delete(self, request: Request, operation_id: UUID) -> Response:
        """End the operation. Entries that are done stay."""
        found = operations.cancel_operation(actor=actor_of(request), operation_id=operation_id)
        return Response(OperationOut(found).data)


class TrashView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="list_trashed_entries", responses={200: BatchOut(many=True), **_REFUSALS})
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List what was deleted in the folder, the last first. It is kept for 7 days."""
        found = service.trashed_entries(actor=actor_of(request), folder_id=folder_id)
        return Response(BatchOut(found, many=True).data)

    @extend_schema(operation_id="trash_entries", request=PathsInput, responses={200: TrashedOut, **_REFUSALS})
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Move entries to the trash of the folder, from which they can be restored for 7 days. They
        count for the size of the folder until they are removed.
        """
        wanted = PathsInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        paths = wanted.validated_data["paths"]
        batch = service.trash_entries(actor=actor_of(request), folder_id=folder_id, paths=paths)
        return Response({"batch": batch})

    @extend_schema(operation_id="empty_folder_trash", responses={204: None, **_REFUSALS})
    def delete(self, request: Request, folder_id: UUID) -> Response:
        """Remove all that lies in the trash of the folder. Cannot be undone."""
        service.empty_trash(actor=actor_of(request), folder_id=folder_id)
        return Response(status=204)


class RestoreView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="restore_entries", request=None, responses={204: None, **_REFUSALS})
    def post(self, request: Request, folder_id: UUID, batch: str) -> Response:
        """Bring entries back to where they were. A taken name gets a number."""
        service.restore_entries(actor=actor_of(request), folder_id=folder_id, batch=batch)
        return Response(status=204)


class ZipView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="download_zip",
        parameters=[OpenApiParameter("path", OpenApiTypes.STR, many=True, description="Entries to pack.")],
        responses={(200, "application/zip"): OpenApiTypes.BINARY, **_REFUSALS},
    )
    def get(self, request: Request, folder_id: UUID) -> HttpResponseBase:
        """Return entries with all that they hold as a ZIP archive, packed while it is sent. Links and
        devices are left out, and named in a file at its end.
        """
        actor = actor_of(request)
        watch = AccessWatch(actor, folder_id, Action.READ, login=request_login(request))
        paths = request.query_params.getlist("path")
        return zip_download(actor=actor, folder_id=folder_id, paths=paths, watch=watch)


class SearchView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="search_entries",
        parameters=[
            OpenApiParameter(
                "q", OpenApiTypes.STR, description="Part of the name, or a pattern with * and ?."
            ),
            _PATH,
        ],
        responses={(200, "application/x-ndjson"): OpenApiTypes.STR, **_REFUSALS},
    )
    def get(self, request: Request, folder_id: UUID) -> HttpResponseBase:
        """Search by name at any depth. Hits come as lines of JSON as they are found, at most 1,000; the
        last line tells if all was searched. Closing the connection ends the search.
        """
        actor = actor_of(request)
        watch = AccessWatch(actor, folder_id, Action.READ, login=request_login(request))
        asked = request.query_params
        return search(
            actor=actor,
            folder_id=folder_id,
            path=asked.get("path", ""),
            words=asked.get("q", ""),
            watch=watch,
        )


class TextView(APIView):
    is_private = True
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="read_text", parameters=[_FILE], responses={200: TextOut, **_REFUSALS})
    def get(self, request: Request, folder_id: UUID) -> Response:
        """Return a text file of at most 2 MiB for an editor."""
        path = request.query_params.get("path", "")
        return Response(TextOut(read_text(actor=actor_of(request), folder_id=folder_id, path=path)).data)

    @extend_schema(
        operation_id="save_text",
        parameters=[_FILE],
        request=TextInput,
        responses={200: SavedOut, 413: ErrorOut, 422: ErrorOut, **_REFUSALS},
    )
    def put(self, request: Request, folder_id: UUID) -> Response:
        """Save a text file, unless another writer has changed it since it was read (409)."""
        wanted = TextInput(data=request.data)
        wanted.is_valid(raise_exception=True)
        path = request.query_params.get("path", "")
        given = wanted.validated_data
        etag = save_text(actor=actor_of(request), folder_id=folder_id, path=path, **given)
        return Response({"etag": etag})


def page_json(path: str, page: Page) -> dict[str, Any]:
    """Return the body of a page. Built by hand, because a serializer would take a second for 10,000
    entries.
    """
    return {
        "path": path,
        "total": page.total,
        "after": None if page.after is None else _cursor(page.after),
        "entries": [entry_json(entry) for entry in page.entries],
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return the fields of `EntryOut`."""
    can_name = is_addressable(entry.name)
    return {
        "name": entry.name if can_name else display_name(entry.name),
        "kind": entry.kind.value,
        "size_bytes": entry.size_bytes,
        "modified_at": entry.modified_at.isoformat().replace("+00:00", "Z"),
        "is_addressable": can_name,
    }


def _cursor(after: After) -> str:
    place = [after.is_directory, after.value, after.name]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _after(text: str) -> After | None:
    if not text:
        return None
    try:
        is_directory, value, name = json.loads(base64.urlsafe_b64decode(text.encode()))
        if isinstance(is_directory, bool) and isinstance(value, int) and isinstance(name, str):
            return After(is_directory, value, name)
    except (ValueError, binascii.Error):
        pass
    raise InvalidInput.at("after", _("This is not the “after” of a page before."))


def _order(text: str) -> Order:
    with invalid_field("sort"):
        return Order(text)


def _limit(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:9]) <= service.LISTED_ENTRIES:
        raise InvalidInput.at(
            "limit", _("Give a number from 1 to {most}.").format(most=service.LISTED_ENTRIES)
        )
    return int(text)
