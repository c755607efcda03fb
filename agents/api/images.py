"""REST views of images on machines: where they are, bringing them there, removing them."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import require_superadmin
from agents.machine_images.removal import remove_image
from agents.machine_images.selectors import machines_of_image
from agents.machine_images.transfers import bring_image
from agents.models import Agent, AgentImage, ImageTransfer
from agents.selectors import access_agent, access_resource_group, agent_named, visible_agents
from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField, query_value
from common.rest.pagination import StandardPagination
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN
from images.selectors import access_image

MOST_AGENTS = 1000


class AgentImageOut(serializers.ModelSerializer[AgentImage]):
    class Meta:
        model = AgentImage
        fields = ("reference", "image_id", "size_bytes", "found_at", "brought_at", "used_at")
        read_only_fields = fields


class ImageTransferOut(serializers.ModelSerializer[ImageTransfer]):
    """An image on its way to a machine, or the result of that."""

    agent = serializers.CharField(source="agent.name")
    copied_from = serializers.CharField(
        source="source.name", default=None, help_text="Agent that sends it; null: its registry."
    )
    state = serializers.CharField(help_text="waiting, running, done or failed.")

    class Meta:
        model = ImageTransfer
        fields = (
            "id", "agent", "reference", "copied_from", "state", "done_bytes", "total_bytes", "error", "requested_at",
            "started_at", "ended_at",
        )  # fmt: skip
        read_only_fields = fields


class MachineWithImageOut(serializers.Serializer[Any]):
    agent = serializers.CharField(source="agent.name")
    resource_group = serializers.CharField(source="agent.resource_group.name")
    state = serializers.CharField(help_text="there, coming, waiting, failed or absent.")
    image = AgentImageOut(allow_null=True)
    transfer = ImageTransferOut(allow_null=True, help_text="The newest one to this machine.")


class ImageBringInput(InputSerializer):
    agents = serializers.ListField(
        child=TextField(max_length=64), required=False, max_length=MOST_AGENTS, help_text="Names of machines."
    )
    resource_group = TextField(
        max_length=64, required=False, help_text="All machines of this resource group."
    )


class ImageMachineListView(GenericAPIView[Agent]):
    token_scopes = FOR_ADMIN
    token_scopes_of = {"GET": EVERY_TOKEN}  # noqa: RUF012
    serializer_class = MachineWithImageOut
    pagination_class = StandardPagination
    queryset = Agent.objects.none()

    @extend_schema(operation_id="list_image_machines", responses=MachineWithImageOut(many=True))
    def get(self, request: Request, image_id: int) -> Response:
        """List the agents that could run the image, and whether they have it."""
        actor = actor_of(request)
        machines: Any = machines_of_image(actor, access_image(actor, image_id))
        page: Any = self.paginate_queryset(machines)
        return self.get_paginated_response(MachineWithImageOut(page, many=True).data)

    @extend_schema(
        operation_id="bring_image",
        request=ImageBringInput,
        responses={202: ImageTransferOut(many=True), 400: ErrorOut, 409: ErrorOut},
    )
    def post(self, request: Request, image_id: int) -> Response:
        """Have the image brought to machines, before sessions need it: pulled from its registry, else
        copied from another machine. Those that have it are left as they are. For superadmins.
        """
        actor = actor_of(request)
        require_superadmin(actor)
        image = access_image(actor, image_id)
        data = ImageBringInput(data=request.data)
        data.is_valid(raise_exception=True)
        names, group = data.validated_data.get("agents", []), data.validated_data.get("resource_group", "")
        agents = [agent_named(actor, name) for name in names]
        if group:
            agents += (
                visible_agents(actor).filter(resource_group=access_resource_group(actor, group)).in_use()
            )
        if not names and not group:
            raise InvalidInput.at("agents", _("Name machines, or a resource group."))
        made = bring_image(actor=actor, image=image, agents={agent.pk: agent for agent in agents}.values())
        return Response(ImageTransferOut(made, many=True).data, status=202)


class AgentImageListView(ListAPIView[AgentImage]):
    """List the images on an agent."""

    token_scopes = FOR_ADMIN
    serializer_class = AgentImageOut
    queryset = AgentImage.objects.none()

    def get_queryset(self) -> Any:
        return access_agent(actor_of(self.request), self.kwargs["agent_id"]).images.order_by("reference")

    @extend_schema(operation_id="list_agent_images")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the images on an agent."""
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="remove_agent_image",
        parameters=[OpenApiParameter("reference", OpenApiTypes.STR, required=True)],
        responses={204: None, 404: ErrorOut, 409: ErrorOut, 503: ErrorOut},
    )
    def delete(self, request: Request, agent_id: int) -> Response:
        """Remove an image that Berth brought to an agent and that no container uses. For superadmins."""
        remove_image(actor=actor_of(request), agent_id=agent_id, reference=query_value(request, "reference"))
        return Response(status=204)
