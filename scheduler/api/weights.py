"""REST of fair-share entries and weights in a resource group."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.core.limits import Level
from accounts.models import KeyPair
from accounts.policies.service import access_limited
from accounts.selectors import require_superadmin
from agents.grantee import grantee_level, grantee_name
from agents.selectors import access_group, access_group_to_administer
from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.input import InputSerializer, query_value
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN
from scheduler.fairness.standings import read_fair_share_entries
from scheduler.fairness.usage import SHARE_LEVELS
from scheduler.fairness.weights import set_share_weight
from scheduler.models import LEAST_WEIGHT, MOST_WEIGHT, ShareWeight

LEVELS = [level.value for level in SHARE_LEVELS]


class FairShareEntryOut(serializers.Serializer[Any]):
    """Fair-share entry. A share is the largest fraction of any slot of the group."""

    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField()
    name = serializers.CharField(help_text="Name of the domain or project, or e-mail address of the user.")
    above = serializers.ListField(
        child=serializers.CharField(),
        help_text="Names of its domain and project; a user is listed once per project.",
    )
    weight = serializers.FloatField()
    target = serializers.FloatField(
        allow_null=True,
        help_text="Share that is due if all listed holders request theirs; null: no use and no "
        "waiting sessions.",
    )
    held = serializers.FloatField(help_text="Share that is allocated now.")
    lately = serializers.FloatField(help_text="Average past share; use one half-life ago counts half.")
    counts = serializers.FloatField(
        help_text="(held + 4 × lately) / weight; within a domain or project, the lowest is served first."
    )


class WeightInput(InputSerializer):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
    weight = serializers.DecimalField(
        max_digits=7,
        decimal_places=3,
        min_value=LEAST_WEIGHT,
        max_value=MOST_WEIGHT,
        help_text="Weight; twice the weight is twice the share. Default: 1.",
    )


class WeightOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.IntegerField()
    name = serializers.CharField()
    weight = serializers.FloatField()


class WeightListView(GenericAPIView[ShareWeight]):
    token_scopes = FOR_ADMIN
    serializer_class = FairShareEntryOut
    pagination_class = StandardPagination
    queryset = ShareWeight.objects.none()

    @extend_schema(
        operation_id="list_resource_group_weights",
        parameters=[
            OpenApiParameter("level", str, enum=LEVELS, description="Level of the entries; default: domain.")
        ],
        responses=FairShareEntryOut(many=True),
    )
    def get(self, request: Request, group_id: int) -> Response:
        """List the fair-share entries of the group with current use, past use and weight, in the
        order in which fair share serves them. For superadmins and monitors.
        """
        group = access_group_to_administer(actor_of(request), group_id)
        page = self.paginate_queryset(read_fair_share_entries(group, _asked_level(request)))  # type: ignore[arg-type]
        return self.get_paginated_response(FairShareEntryOut(page, many=True).data)

    @extend_schema(operation_id="set_resource_group_weight", request=WeightInput, responses={200: WeightOut})
    def put(self, request: Request, group_id: int) -> Response:
        """Set the fair-share weight of a domain, a project or a person in the group. For
        superadmins.
        """
        actor = actor_of(request)
        access_group(actor, group_id)
        require_superadmin(actor)
        asked = WeightInput(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted = asked.validated_data
        holder = access_limited(actor, Level(wanted["level"]), wanted["id"])
        assert not isinstance(holder, KeyPair)
        weight = set_share_weight(actor=actor, group_id=group_id, holder=holder, weight=wanted["weight"])
        told = {
            "level": grantee_level(holder),
            "id": holder.pk,
            "name": grantee_name(holder),
            "weight": weight,
        }
        return Response(WeightOut(told).data)


def _asked_level(request: Request) -> Level:
    text = query_value(request, "level", usual=Level.DOMAIN.value)
    if text not in LEVELS:
        raise InvalidInput(_("There is no such level."), hint=_("Write domain, project or user."))
    return Level(text)
