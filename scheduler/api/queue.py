"""REST of queues: pending sessions in order, without details of sessions that the caller may not
see.
"""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from agents.selectors import access_visible_group
from common.rest.actor import actor_of
from common.rest.input import query_value
from common.rest.pagination import StandardPagination
from common.token_scopes import EVERY_TOKEN
from sessions_app.models import ComputeSession
from sessions_app.queue.listing import queue_places, queued_sessions


class WaitingOut(serializers.Serializer[Any]):
    """One place in a queue. Amounts are in base units, for each of its containers. A session that
    you may not see shows only its position, its size, the minute since which it waits, and a reason
    without names.
    """

    position = serializers.IntegerField()
    id = serializers.UUIDField(allow_null=True, help_text="null for a session that is hidden from you.")
    name = serializers.CharField(allow_blank=True)
    owner = serializers.CharField(
        allow_blank=True,
        help_text="E-mail address of the owner; empty for a session that is hidden from you.",
    )
    is_own = serializers.BooleanField()
    resources = serializers.DictField(source="slots", child=serializers.IntegerField())
    containers = serializers.IntegerField(source="kernel_count")
    priority = serializers.IntegerField(
        allow_null=True, help_text="null for a session that is hidden from you."
    )
    since = serializers.DateTimeField(
        help_text="Time at which the session entered the queue; only the minute for a session that is "
        "hidden from you."
    )
    reason = serializers.CharField(
        allow_blank=True,
        help_text="Code of the reason; empty for a hidden session that waits for a limit or time of its own.",
    )
    message = serializers.CharField(source="why")


class QueueView(GenericAPIView[ComputeSession]):
    token_scopes = EVERY_TOKEN
    serializer_class = WaitingOut
    pagination_class = StandardPagination
    queryset = ComputeSession.objects.none()

    @extend_schema(
        operation_id="list_queue",
        parameters=[
            OpenApiParameter(
                "resource_group", str, description="Name of the resource group; default: the default group."
            )
        ],
        responses=WaitingOut(many=True),
    )
    def get(self, request: Request) -> Response:
        """List the sessions that wait in a resource group, in order. Sessions that you may not see
        show only their size, the minute since which they wait, and a reason without names.
        """
        actor = actor_of(request)
        group = access_visible_group(actor, query_value(request, "resource_group"))
        page = self.paginate_queryset(queued_sessions([group.pk]))
        assert self.paginator is not None
        assert page is not None
        first = self.paginator.page.start_index()  # type: ignore[attr-defined]
        rows = queue_places(actor, list(page), first=first)
        return self.get_paginated_response(WaitingOut(rows, many=True).data)
