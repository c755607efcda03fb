"""REST endpoints of notifications."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import query_flag
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN
from portal.models import Notification
from portal.notifications import selectors, service
from portal.notifications.catalogue import Code


class NotificationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    code = serializers.ChoiceField(choices=[code.value for code in Code])
    arguments = serializers.DictField()
    text = serializers.SerializerMethodField()
    session_id = serializers.UUIDField(allow_null=True)
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)

    def get_text(self, notification: Notification) -> str:
        return selectors.notification_text(notification)


class ReadCountOut(serializers.Serializer[Any]):
    read = serializers.IntegerField(help_text="Number of notifications that were unread.")


UNREAD = OpenApiParameter("unread", OpenApiTypes.BOOL, description="1: only unread notifications.")


@extend_schema_view(
    get=extend_schema(
        operation_id="list_notifications",
        parameters=[UNREAD],
        responses={200: NotificationOut, 400: ErrorOut, 401: ErrorOut},
    )
)
class NotificationListView(ListAPIView[Notification]):
    """List your notifications, newest first; the last 200 are kept."""

    token_scopes = EVERY_TOKEN
    serializer_class = NotificationOut
    queryset = Notification.objects.none()

    def get_queryset(self) -> QuerySet[Notification]:
        actor = actor_of(self.request)
        if query_flag(self.request, "unread"):
            return selectors.unread_notifications(actor)
        return selectors.own_notifications(actor)


class ReadAllView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="read_all_notifications", request=None, responses={200: ReadCountOut, 401: ErrorOut}
    )
    def post(self, request: Request) -> Response:
        """Mark all your notifications as read."""
        return Response({"read": service.read_all_notifications(actor=actor_of(request))})


class ReadView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="read_notification",
        request=None,
        responses={200: NotificationOut, 401: ErrorOut, 404: ErrorOut},
    )
    def post(self, request: Request, notification_id: int) -> Response:
        """Mark a notification as read."""
        read = service.read_notification(actor=actor_of(request), notification_id=notification_id)
        return Response(NotificationOut(read).data)
