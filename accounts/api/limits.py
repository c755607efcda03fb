"""REST of one's own limits."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.limits import limits_in
from accounts.selectors import access_usable_project
from common.api import ErrorOut, LimitOut, actor_of, asked_once


class OwnLimitsOut(serializers.Serializer[Any]):
    project = serializers.CharField(allow_blank=True)
    limits = LimitOut(many=True)


class LimitListView(APIView):
    @extend_schema(
        operation_id="list_limits",
        parameters=[
            OpenApiParameter(
                "project",
                OpenApiTypes.STR,
                description="One of your projects; without it, what holds in all of them.",
            )
        ],
        responses={200: OwnLimitsOut, 401: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    def get(self, request: Request) -> Response:
        """What you may use: for each limit the one that leaves you least, who sets it, and what is used and left of it. What
        is not in the list is unlimited."""
        actor, name = actor_of(request), asked_once(request, "project")
        project = access_usable_project(actor, name) if name else None
        return Response(OwnLimitsOut({"project": name, "limits": limits_in(actor, project)}).data)
