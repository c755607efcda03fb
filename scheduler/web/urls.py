from django.urls import path

from scheduler.web import queue, ticks, weights

GROUP = "resource-groups/<int:group_id>/"

urlpatterns = [
    path("queue/", queue.queue_page, name="queue"),
    path("queue/starts/", queue.expected_starts, name="expected-starts"),
    path("scheduler/", ticks.scheduler, name="scheduler"),
    path("sessions/<uuid:session_id>/why/", ticks.why_it_waited, name="session-why"),
    path(f"{GROUP}scheduler/", ticks.tick_list, name="resource-group-scheduler"),
    path(f"{GROUP}scheduler/<int:tick_id>/", ticks.tick_page, name="resource-group-tick"),
    path(f"{GROUP}weights/", weights.weights_page, name="resource-group-weights"),
]
