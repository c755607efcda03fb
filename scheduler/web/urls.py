from django.urls import path

from scheduler.web import queue, starts, ticks, weights, why

GROUP = "resource-groups/<int:group_id>/"

urlpatterns = [
    path("queue/", queue.queue_page, name="queue"),
    path("queue/starts/", starts.expected_starts, name="expected-starts"),
    path("scheduler/", ticks.scheduler, name="scheduler"),
    path("sessions/<uuid:session_id>/why/", why.why_it_waited, name="session-why"),
    path(f"{GROUP}scheduler/", ticks.tick_list, name="resource-group-scheduler"),
    path(f"{GROUP}scheduler/<int:tick_id>/", ticks.tick_page, name="resource-group-tick"),
    path(f"{GROUP}weights/", weights.weights_page, name="resource-group-weights"),
]
