from django.urls import path

from agents.web import views

urlpatterns = [
    path("", views.agent_list, name="agents"),
    path("export/", views.agent_export, name="agents-export"),
    path("<int:agent_id>/state/", views.change_state, name="agent-state"),
]
