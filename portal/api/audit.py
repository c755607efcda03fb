"""REST list of the audit log."""

import re
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers
from rest_framework.generics import ListAPIView
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from common.errors import InvalidInput
from common.models import AuditEntry
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import query_flag, query_value
from common.rest.pagination import SizedPagination
from common.token_scopes import FOR_ADMIN
from common.values.text import quoted
from portal.audit.selectors import own_entries, visible_entries, with_origin

FILTERS = {
    "actor": ("actor_label", "E-mail address of the actor."),
    "action": ("action", "Code of the action, e.g. sessions.terminate_session."),
    "object_kind": ("target_type", "Type of the object, e.g. accounts.user."),
    "object_id": ("target_id", "Id of the object."),
    "outcome": ("outcome", "Outcome: done, refused or failed."),
    "request_id": ("request_id", "Request id, as on error pages and in the header X-Request-Id."),
}
# RFC 3339, as the API document says; Python's parser accepts more.
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


class AuditEntryOut(serializers.ModelSerializer[AuditEntry]):
    actor = serializers.CharField(source="actor_label")
    acted_as = serializers.CharField(
        source="acted_as_label",
        help_text="E-mail address of the user whom the actor impersonated; else empty.",
    )
    object_kind = serializers.CharField(source="target_type")
    object_id = serializers.CharField(source="target_id")
    object = serializers.CharField(source="target_label", help_text="Name of the object at that time.")
    ip = serializers.SerializerMethodField(help_text="Empty if the origin of the action is hidden from you.")
    user_agent = serializers.SerializerMethodField(
        help_text="Empty if the origin of the action is hidden from you."
    )
    changes = serializers.DictField(
        help_text="{field: [before, after]} or {field: value}; *** for values that are not recorded."
    )

    class Meta:
        model = AuditEntry
        fields = (
            "id", "recorded_at", "count", "last_at", "actor", "actor_id", "actor_kind", "acted_as", "acted_as_id",
            "action", "object_kind", "object_id", "object", "outcome", "reason", "ip", "via", "user_agent", "request_id",
            "changes",
        )  # fmt: skip

    def get_ip(self, entry: Any) -> str:
        return entry.ip if entry.shows_origin else ""

    def get_user_agent(self, entry: Any) -> str:
        return entry.user_agent if entry.shows_origin else ""


class NewestFirst(SizedPagination, CursorPagination):
    """Pagination by ?cursor=… from `next`; at most 200 per page."""

    ordering = ("-id",)  # a unique order, so that no line appears twice

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> Any:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (exceptions.NotFound, ValueError) as error:
            sentence = _("The cursor is none of this list. Begin without one.")
            raise InvalidInput(sentence, fields={"cursor": [sentence]}) from error


@extend_schema_view(
    get=extend_schema(
        operation_id="list_audit",
        parameters=[
            *(
                OpenApiParameter(name, OpenApiTypes.STR, description=description)
                for name, (_field, description) in FILTERS.items()
            ),
            OpenApiParameter(
                "since",
                OpenApiTypes.DATETIME,
                description="Only entries at or after this time, with time zone.",
            ),
            OpenApiParameter(
                "until", OpenApiTypes.DATETIME, description="Only entries before this time, with time zone."
            ),
            OpenApiParameter("own", OpenApiTypes.BOOL, description="1: only your own entries."),
        ],
        responses={200: AuditEntryOut, 400: ErrorOut, 401: ErrorOut},
    )
)
class AuditListView(ListAPIView[AuditEntry]):
    """List the audit log, newest first.

    Superadmins see all entries, domain admins those of their domain, others their own.
    """

    token_scopes = FOR_ADMIN
    serializer_class = AuditEntryOut
    pagination_class = NewestFirst
    queryset = AuditEntry.objects.none()

    def get_queryset(self) -> QuerySet[AuditEntry]:
        actor = actor_of(self.request)
        entries = own_entries(actor) if query_flag(self.request, "own") else visible_entries(actor)
        return with_origin(actor, entries.filter(self._condition()))

    def _condition(self) -> Q:
        wanted = Q()
        for name, (field, _description) in FILTERS.items():
            if value := query_value(self.request, name):
                wanted &= Q(**{field: value})
        for name, lookup in (("since", "recorded_at__gte"), ("until", "recorded_at__lt")):
            if name in self.request.query_params:
                wanted &= Q(**{lookup: _instant(name, query_value(self.request, name))})
        return wanted


def _instant(name: str, value: str) -> datetime:
    """Return the time in UTC. Raises InvalidInput."""
    written = value.replace(" ", "+")  # an unescaped plus arrives as a space
    try:
        instant = parse_datetime(written) if INSTANT.fullmatch(written) else None
        if instant is None:
            raise ValueError
        return instant.astimezone(UTC)  # PostgreSQL rejects offsets beyond 16 hours
    except (ValueError, OverflowError) as error:
        sentence = _("{value} is no instant. Write it like 2026-11-22T07:00:00Z.").format(
            value=quoted(value, 40)
        )
        raise InvalidInput(sentence, fields={name: [sentence]}) from error
