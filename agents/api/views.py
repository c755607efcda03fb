"""REST view that lists agents."""

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView

from agents.api.serializers import AgentOut
from agents.models import Agent, AgentQuerySet
from agents.selectors import visible_agents
from common.rest.actor import actor_of
from common.token_scopes import FOR_ADMIN


@extend_schema_view(get=extend_schema(operation_id="list_agents"))
class AgentListView(ListAPIView[Agent]):
    """List the agents with their capacity and allocated resources."""

    token_scopes = FOR_ADMIN
    serializer_class = AgentOut
    filterset_fields = ("state", "resource_group__name")
    queryset = Agent.objects.none()

    def get_queryset(self) -> AgentQuerySet:
        return visible_agents(actor_of(self.request)).with_parts()
