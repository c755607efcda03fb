"""REST of machines: reading."""

from django.db.models import Count, Q, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView

from agents.api.serializers import AgentOut, ResourceGroupOut
from agents.models import Agent, AgentQuerySet, ResourceGroup
from agents.selectors import visible_agents, visible_resource_groups
from agents.states import AgentState
from common.api import actor_of
from common.scopes import EVERY_TOKEN, FOR_ADMIN


@extend_schema_view(get=extend_schema(operation_id="list_agents"))
class AgentListView(ListAPIView[Agent]):
    """Machines, what they have and what of it is occupied."""

    token_scopes = FOR_ADMIN
    serializer_class = AgentOut
    filterset_fields = ("state", "resource_group__name")
    queryset = Agent.objects.none()

    def get_queryset(self) -> AgentQuerySet:
        return visible_agents(actor_of(self.request)).with_parts()


@extend_schema_view(get=extend_schema(operation_id="list_resource_groups"))
class ResourceGroupListView(ListAPIView[ResourceGroup]):
    """Groups of machines that a session can name."""

    token_scopes = EVERY_TOKEN
    serializer_class = ResourceGroupOut
    queryset = ResourceGroup.objects.none()

    def get_queryset(self) -> QuerySet[ResourceGroup]:
        in_use = ~Q(agents__state=AgentState.RETIRED.value)
        groups = visible_resource_groups(actor_of(self.request))
        return groups.annotate(agent_count=Count("agents", filter=in_use)).order_by("name")
