"""REST endpoint of limits: the caller's own, and those of users the caller looks after."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core import allow_lists
from accounts.core.limits import Scope, all_limits, effective_limits
from accounts.limits import allow_list_json, read_scopes, scope_ids, user_scopes
from accounts.selectors import access_usable_project, find_shared_project, find_user
from common.actors import Actor
from common.rest.actor import actor_of
from common.rest.errors import AllowListOut, ErrorOut, LimitOut
from common.rest.input import query_value
from common.token_scopes import EVERY_TOKEN


class EffectiveLimitsOut(serializers.Serializer[Any]):
    user = serializers.CharField(allow_blank=True, help_text="E-mail address in the request; empty: you.")
    project = serializers.CharField(allow_blank=True)
    limits = LimitOut(many=True, help_text="Tightest value of each limit, and all values with `is_joint`.")
    levels = LimitOut(many=True, help_text="Each limit of each level.")
    allow_lists = AllowListOut(
        many=True, help_text="Allow-lists of each level; a value must be in all lists of its kind."
    )


class LimitListView(APIView):
    token_scopes = EVERY_TOKEN

    @extend_schema(
        operation_id="list_limits",
        parameters=[
            OpenApiParameter(
                "user",
                OpenApiTypes.STR,
                description="E-mail address of a user visible to you; default: you.",
            ),
            OpenApiParameter(
                "project",
                OpenApiTypes.STR,
                description="Name of a project of the user; without it, limits of projects are left out.",
            ),
        ],
        responses={200: EffectiveLimitsOut, 401: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    def get(self, request: Request) -> Response:
        """Show the limits of yourself or of a user you look after: the tightest value of each limit
        with its source, use and rest; then each limit at each level, and each allow-list. Limits
        that are not listed are unlimited.
        """
        email, name = query_value(request, "user"), query_value(request, "project")
        scopes = _scopes(actor_of(request), email, name)
        lists = [allow_list_json(each) for each in allow_lists.all_lists(scopes)]
        body = {
            "user": email,
            "project": name,
            "limits": effective_limits(scopes),
            "levels": all_limits(scopes),
        }
        body["allow_lists"] = lists
        return Response(EffectiveLimitsOut(body).data)


def _scopes(actor: Actor, email: str, name: str) -> list[Scope]:
    if not email:
        project = access_usable_project(actor, name) if name else None
        return read_scopes(scope_ids(actor, project).keys())
    user = find_user(actor, email, field="user")
    return user_scopes(user, find_shared_project(actor, user, name) if name else None)
