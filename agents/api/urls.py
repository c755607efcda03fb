from django.urls import path

from agents.api.views import AgentListView, ResourceGroupListView

urlpatterns = [
    path("agents/", AgentListView.as_view(), name="api-agents"),
    path("resource-groups/", ResourceGroupListView.as_view(), name="api-resource-groups"),
]
