"""REST views of the sharing rules of a resource group."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.selectors import require_superadmin
from agents.models import MODEL_LENGTH, SharingMode, SharingRule
from agents.models.sharing import REFERENCE_LENGTH
from agents.selectors import access_group
from agents.sharing import mig_partitions, service
from agents.sharing.selectors import sharing_rules
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.rest.pagination import StandardPagination
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN
from common.values.resources import MILLI

MODES = list(SharingMode.values)
_MODEL = "Model of the devices, as agents report it; empty: all models."
_MODE = (
    "forbidden: whole devices only; slice: time slicing, no limits; memory: the driver limits memory; mps: "
    "CUDA MPS; hook: a CUDA hook library from `hook_image`."
)
_SHARE = "Smallest part of a device that a session may request, in thousandths."
_IMAGE = "Image that contains the hook library; for the mode hook only."
_MIG = "true: an empty device may be split when a session asks for a MIG profile."


class SharingRuleInput(InputSerializer):
    model = TextField(max_length=MODEL_LENGTH, required=False, allow_blank=True, help_text=_MODEL)
    mode = serializers.ChoiceField(choices=MODES, help_text=_MODE)
    smallest_share = serializers.IntegerField(
        min_value=1, max_value=MILLI - 1, required=False, help_text=_SHARE
    )
    hook_image = TextField(max_length=REFERENCE_LENGTH, required=False, allow_blank=True, help_text=_IMAGE)
    mig_on_demand = serializers.BooleanField(required=False, help_text=_MIG)


class SharingRuleChange(InputSerializer):
    """Changes of a rule; absent fields stay unchanged."""

    model = TextField(max_length=MODEL_LENGTH, required=False, allow_blank=True, help_text=_MODEL)
    mode = serializers.ChoiceField(choices=MODES, required=False, help_text=_MODE)
    smallest_share = serializers.IntegerField(
        min_value=1, max_value=MILLI - 1, required=False, help_text=_SHARE
    )
    hook_image = TextField(max_length=REFERENCE_LENGTH, required=False, allow_blank=True, help_text=_IMAGE)
    mig_on_demand = serializers.BooleanField(required=False, help_text=_MIG)


class SharingRuleOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    model = serializers.CharField(allow_blank=True, help_text=_MODEL)
    mode = serializers.CharField(help_text=_MODE)
    smallest_share = serializers.IntegerField(help_text=_SHARE)
    hook_image = serializers.CharField(allow_blank=True, help_text=_IMAGE)
    mig_on_demand = serializers.BooleanField(help_text=_MIG)
    isolation = serializers.CharField(
        allow_blank=True, help_text="Isolation of a part, if the mechanism works on the machine."
    )
    isolation_sentence = serializers.CharField(source="isolation.sentence", help_text="What that means.")


class SharingRuleListView(GenericAPIView[SharingRule]):
    token_scopes = FOR_ADMIN
    token_scopes_of = {"GET": EVERY_TOKEN}  # noqa: RUF012
    serializer_class = SharingRuleOut
    pagination_class = StandardPagination
    queryset = SharingRule.objects.none()

    @extend_schema(operation_id="list_sharing_rules", responses=SharingRuleOut(many=True))
    def get(self, request: Request, group_id: int) -> Response:
        """List the rules by which devices of the group are shared, by model.
        Without a rule, parts of devices are time slices without limits.
        """
        page = self.paginate_queryset(sharing_rules(access_group(actor_of(request), group_id)))
        return self.get_paginated_response(SharingRuleOut(page, many=True).data)

    @extend_schema(
        operation_id="create_sharing_rule", request=SharingRuleInput, responses={201: SharingRuleOut}
    )
    @takes_idempotency_key
    def post(self, request: Request, group_id: int) -> Response:
        """Add a rule for one model, or for all models. For superadmins."""
        actor = actor_of(request)
        access_group(actor, group_id)
        require_superadmin(actor)
        data = SharingRuleInput(data=request.data)
        data.is_valid(raise_exception=True)
        rule = service.create_sharing_rule(actor=actor, group_id=group_id, **data.validated_data)
        return Response(SharingRuleOut(rule).data, status=201)


class SharingRuleView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="change_sharing_rule", request=SharingRuleChange, responses={200: SharingRuleOut}
    )
    def patch(self, request: Request, group_id: int, rule_id: int) -> Response:
        """Change a rule; sessions that run keep what they got. For superadmins."""
        actor = actor_of(request)
        access_group(actor, group_id)
        require_superadmin(actor)
        data = SharingRuleChange(data=request.data)
        data.is_valid(raise_exception=True)
        rule = service.change_sharing_rule(
            actor=actor, group_id=group_id, rule_id=rule_id, changes=data.validated_data
        )
        return Response(SharingRuleOut(rule).data)

    @extend_schema(operation_id="delete_sharing_rule", responses={204: None})
    def delete(self, request: Request, group_id: int, rule_id: int) -> Response:
        """Delete a rule; sessions that run keep what they got. For superadmins."""
        service.delete_sharing_rule(actor=actor_of(request), group_id=group_id, rule_id=rule_id)
        return Response(status=204)


class LayoutInput(InputSerializer):
    layout = serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=mig_partitions.MOST_PARTITIONS),
        help_text='Number of partitions by MIG profile, such as {"1g.10gb": 4, "3g.40gb": 1}; {}: none.',
    )


class ModelLayoutInput(LayoutInput):
    model = TextField(max_length=MODEL_LENGTH, help_text="Model of the devices.")


class LayoutOut(serializers.Serializer[Any]):
    device_id = serializers.CharField(help_text="Id of the device given by the vendor.")
    wanted_layout = serializers.DictField(
        child=serializers.IntegerField(), allow_null=True, help_text="Partitions that are about to be made."
    )
    withheld = serializers.CharField(allow_blank=True)


class ModelLayoutOut(serializers.Serializer[Any]):
    refused = serializers.ListField(
        child=serializers.CharField(), help_text="Why devices keep their layout, one sentence each."
    )


class LayoutView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="partition_device", request=LayoutInput, responses={202: LayoutOut, 409: ErrorOut}
    )
    def put(self, request: Request, agent_id: int, device_id: int) -> Response:
        """Split a device that nobody holds into MIG partitions. For superadmins.
        It is withheld until a helper has made them.
        """
        actor = actor_of(request)
        require_superadmin(actor)
        data = LayoutInput(data=request.data)
        data.is_valid(raise_exception=True)
        device = mig_partitions.request_layout(
            actor=actor, agent_id=agent_id, device_id=device_id, layout=data.validated_data["layout"]
        )
        device.refresh_from_db()
        return Response(LayoutOut(device).data, status=202)


class ModelLayoutView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="partition_devices_of_model", request=ModelLayoutInput, responses={202: ModelLayoutOut}
    )
    def put(self, request: Request, group_id: int) -> Response:
        """Split all devices of a model in the group that nobody holds. For superadmins."""
        actor = actor_of(request)
        group = access_group(actor, group_id)
        require_superadmin(actor)
        data = ModelLayoutInput(data=request.data)
        data.is_valid(raise_exception=True)
        refusals = mig_partitions.request_layout_of_model(actor=actor, group=group, **data.validated_data)
        return Response({"refused": [refusal.message for refusal in refusals]}, status=202)
