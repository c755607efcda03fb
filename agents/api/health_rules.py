"""REST views of the health rules of accelerators."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.models import HealthAction, HealthOverride
from agents.vendors.health_rules import change_health_rule, rule_entries
from common.rest.actor import actor_of
from common.rest.input import InputSerializer
from common.rest.pagination import StandardPagination
from common.token_scopes import FOR_ADMIN

_ACTION = "ignore, warn or quarantine."


class HealthRuleInput(InputSerializer):
    action = serializers.ChoiceField(choices=HealthAction.values, help_text=_ACTION)


class HealthRuleOut(serializers.Serializer[Any]):
    vendor = serializers.CharField()
    rule = serializers.CharField(help_text='Name of the rule: a value, "xid-NUMBER", "xid-other" or "lost".')
    title = serializers.CharField()
    condition = serializers.CharField(help_text="When it applies, in terms of the vendor; may be empty.")
    default = serializers.CharField(help_text="Action of the vendor's description.")
    action = serializers.CharField(help_text=f"Action that applies: {_ACTION}")


class HealthRuleListView(GenericAPIView[HealthOverride]):
    token_scopes = FOR_ADMIN
    serializer_class = HealthRuleOut
    pagination_class = StandardPagination
    queryset = HealthOverride.objects.none()

    @extend_schema(operation_id="list_health_rules", responses=HealthRuleOut(many=True))
    def get(self, request: Request) -> Response:
        """List the health rules of all vendors of accelerators. For superadmins."""
        entries: Any = [entry for own in rule_entries(actor_of(request)).values() for entry in own]
        return self.get_paginated_response(HealthRuleOut(self.paginate_queryset(entries), many=True).data)


class HealthRuleView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="change_health_rule", request=HealthRuleInput, responses=HealthRuleOut)
    def put(self, request: Request, vendor: str, rule: str) -> Response:
        """Change what a health rule does, also for an Xid that the description does not name
        ("xid-NUMBER"). For superadmins.
        """
        data = HealthRuleInput(data=request.data)
        data.is_valid(raise_exception=True)
        entry = change_health_rule(
            actor=actor_of(request), vendor=vendor, rule=rule, action=data.validated_data["action"]
        )
        return Response(HealthRuleOut(entry).data)

    @extend_schema(operation_id="reset_health_rule", responses={204: None})
    def delete(self, request: Request, vendor: str, rule: str) -> Response:
        """Let a health rule do what the vendor's description says. For superadmins."""
        change_health_rule(actor=actor_of(request), vendor=vendor, rule=rule, action=None)
        return Response(status=204)
