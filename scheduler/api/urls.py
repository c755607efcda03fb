from django.urls import path

from scheduler.api.queue import QueueView
from scheduler.api.ticks import PreemptionListView, TickListView, WaitsView
from scheduler.api.weights import WeightListView
from scheduler.api.why import WhyView

urlpatterns = [
    path("queue/", QueueView.as_view(), name="api-queue"),
    path("sessions/<uuid:session_id>/why/", WhyView.as_view(), name="api-session-why"),
    path("resource-groups/<int:group_id>/ticks/", TickListView.as_view(), name="api-ticks"),
    path("resource-groups/<int:group_id>/waits/", WaitsView.as_view(), name="api-waits"),
    path(
        "resource-groups/<int:group_id>/preemptions/",
        PreemptionListView.as_view(),
        name="api-preemptions",
    ),
    path(
        "resource-groups/<int:group_id>/weights/",
        WeightListView.as_view(),
        name="api-resource-group-weights",
    ),
]
