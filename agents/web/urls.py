from django.urls import path

from agents.web import views

urlpatterns = [path("", views.agent_list, name="agents")]
