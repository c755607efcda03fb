"""REST views of agents, and of resource groups and their grants."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.limits import Level
from accounts.models import KeyPair
from accounts.policies.service import access_limited
from accounts.selectors import require_superadmin
from agents.api.connections import AgentInput, add_by_request, agent_data
from agents.api.serializers import (
    AgentMoveInput,
    AgentOut,
    GrantInput,
    GrantOut,
    ResourceGroupChangeInput,
    ResourceGroupCreateInput,
    ResourceGroupOut,
)
from agents.models import Agent, AgentQuerySet, GroupGrant, ResourceGroup, ResourceGroupQuerySet
from agents.resource_groups import service
from agents.selectors import (
    access_agent,
    access_group,
    access_group_to_administer,
    agent_named,
    group_grants,
    visible_agents,
    visible_resource_groups,
    with_agent_counts,
)
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN


@extend_schema_view(get=extend_schema(operation_id="list_agents"))
class AgentListView(ListAPIView[Agent]):
    """List the agents with their capacity and allocated resources."""

    token_scopes = FOR_ADMIN
    serializer_class = AgentOut
    filterset_fields = ("state", "resource_group__name")
    queryset = Agent.objects.none()

    def get_queryset(self) -> AgentQuerySet:
        return visible_agents(actor_of(self.request)).with_parts()

    @extend_schema(
        operation_id="add_agent",
        request=AgentInput,
        responses={201: AgentOut, 400: ErrorOut, 409: ErrorOut, 503: ErrorOut},
    )
    def post(self, request: Request) -> Response:
        """Add a machine whose engine answers now, or look at a known one again. For superadmins."""
        actor = actor_of(request)
        agent = add_by_request(actor, request.data)
        return Response(agent_data(actor, agent.pk), status=201)


@extend_schema_view(get=extend_schema(operation_id="list_resource_groups"))
class ResourceGroupListView(ListAPIView[ResourceGroup]):
    """List the resource groups that you may use; superadmins and monitors see all."""

    token_scopes = FOR_ADMIN
    token_scopes_of = {"GET": EVERY_TOKEN}  # noqa: RUF012
    serializer_class = ResourceGroupOut
    queryset = ResourceGroup.objects.none()

    def get_queryset(self) -> ResourceGroupQuerySet:
        return with_agent_counts(visible_resource_groups(actor_of(self.request))).order_by("name")

    @extend_schema(
        operation_id="create_resource_group",
        request=ResourceGroupCreateInput,
        responses={201: ResourceGroupOut},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a resource group without agents. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = ResourceGroupCreateInput(data=request.data)
        data.is_valid(raise_exception=True)
        group = service.create_resource_group(actor=actor, **data.validated_data)
        return Response(_group_data(request, group.pk), status=201)


class ResourceGroupView(APIView):
    token_scopes = FOR_ADMIN
    token_scopes_of = {"GET": EVERY_TOKEN}  # noqa: RUF012

    @extend_schema(operation_id="read_resource_group", responses={200: ResourceGroupOut})
    def get(self, request: Request, group_id: int) -> Response:
        """Return one resource group."""
        return Response(_group_data(request, group_id))

    @extend_schema(
        operation_id="change_resource_group",
        request=ResourceGroupChangeInput,
        responses={200: ResourceGroupOut},
    )
    def patch(self, request: Request, group_id: int) -> Response:
        """Change the given fields. Running sessions continue. Waiting sessions that may not start
        there any more are put on hold, and cancelled after a day. `max_session_slots` applies to
        new requests, `limits` to every session that starts. For superadmins.
        """
        _require_superadmin(request, group_id)
        data = ResourceGroupChangeInput(data=request.data)
        data.is_valid(raise_exception=True)
        changes = data.validated_data
        service.update_resource_group(actor=actor_of(request), group_id=group_id, changes=changes)
        return Response(_group_data(request, group_id))

    @extend_schema(operation_id="delete_resource_group", responses={204: None, 409: ErrorOut})
    def delete(self, request: Request, group_id: int) -> Response:
        """Delete a group that has no agents, waiting or running sessions. For superadmins."""
        service.delete_resource_group(actor=actor_of(request), group_id=group_id)
        return Response(status=204)


@extend_schema_view(get=extend_schema(operation_id="list_resource_group_grants"))
class GrantListView(ListAPIView[GroupGrant]):
    """List the domains, projects and users that may use the group if it is not public.
    For superadmins and monitors.
    """

    token_scopes = FOR_ADMIN
    serializer_class = GrantOut
    queryset = GroupGrant.objects.none()

    def get_queryset(self) -> QuerySet[GroupGrant]:
        return group_grants(access_group_to_administer(actor_of(self.request), self.kwargs["group_id"]))

    @extend_schema(operation_id="grant_resource_group", request=GrantInput, responses={201: GrantOut})
    def post(self, request: Request, group_id: int) -> Response:
        """Allow a domain, project or user to use the group; a repeat changes nothing.
        For superadmins.
        """
        _require_superadmin(request, group_id)
        data = GrantInput(data=request.data)
        data.is_valid(raise_exception=True)
        actor, wanted = actor_of(request), data.validated_data
        grantee = access_limited(actor, Level(wanted["level"]), wanted["id"])
        assert not isinstance(grantee, KeyPair)
        grant = service.grant_resource_group(actor=actor, group_id=group_id, grantee=grantee)
        return Response(GrantOut(grant).data, status=201)


class GrantView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="revoke_resource_group", responses={204: None})
    def delete(self, request: Request, group_id: int, grant_id: int) -> Response:
        """Revoke a grant. Waiting sessions that rely on it are put on hold, and cancelled after a
        day; running sessions continue. For superadmins.
        """
        service.revoke_resource_group(actor=actor_of(request), group_id=group_id, grant_id=grant_id)
        return Response(status=204)


class GroupAgentListView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="move_agent", request=AgentMoveInput, responses={200: AgentOut})
    def post(self, request: Request, group_id: int) -> Response:
        """Move an agent to this group; its sessions continue. For superadmins."""
        _require_superadmin(request, group_id)
        data = AgentMoveInput(data=request.data)
        data.is_valid(raise_exception=True)
        actor = actor_of(request)
        agent = agent_named(actor, data.validated_data["agent"])
        service.move_agent(actor=actor, agent_id=agent.pk, group_id=group_id)
        return Response(AgentOut(access_agent(actor, agent.pk)).data)


def _group_data(request: Request, group_id: int) -> dict[str, object]:
    actor = actor_of(request)
    group = access_group(actor, group_id)
    return dict(ResourceGroupOut(with_agent_counts(visible_resource_groups(actor)).get(pk=group.pk)).data)


def _require_superadmin(request: Request, group_id: int) -> None:
    """Raise NotFound if the group is hidden from the user, PermissionDenied if the user may only
    see it.
    """
    access_group(actor_of(request), group_id)
    require_superadmin(actor_of(request))
