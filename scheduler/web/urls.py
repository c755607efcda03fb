from django.urls import path

from scheduler.web import groups, limits, queue, reservations, starts, ticks, weights, why

GROUP = "resource-groups/<int:group_id>/"

urlpatterns = [
    path("queue/", queue.queue_page, name="queue"),
    path("queue/starts/", starts.expected_starts, name="expected-starts"),
    path("scheduler/", ticks.scheduler, name="scheduler"),
    path("sessions/<uuid:session_id>/why/", why.why_it_waited, name="session-why"),
    path("resource-groups/", groups.group_list, name="resource-groups"),
    path("resource-groups/new/", groups.new_group, name="new-resource-group"),
    path(GROUP, groups.group_page, name="resource-group"),
    path(f"{GROUP}scheduler/", ticks.tick_list, name="resource-group-scheduler"),
    path(f"{GROUP}scheduler/<int:tick_id>/", ticks.tick_page, name="resource-group-tick"),
    path(f"{GROUP}state/", groups.change_state, name="resource-group-state"),
    path(f"{GROUP}delete/", groups.delete_group, name="resource-group-delete"),
    path(f"{GROUP}grants/", groups.grant, name="resource-group-grant"),
    path(f"{GROUP}grants/<int:grant_id>/revoke/", groups.revoke, name="resource-group-revoke"),
    path(f"{GROUP}weights/", weights.weights_page, name="resource-group-weights"),
    path(f"{GROUP}limits/", limits.limit_list, name="resource-group-limits"),
    path(f"{GROUP}limits/change/", limits.limit_page, name="resource-group-limit"),
    path(f"{GROUP}limits/remove/", limits.remove, name="remove-group-limit"),
    path(f"{GROUP}reservations/", reservations.reservation_list, name="reservations"),
    path(
        f"{GROUP}reservations/<int:reservation_id>/",
        reservations.reservation_page,
        name="reservation",
    ),
    path(f"{GROUP}reservations/<int:reservation_id>/cancel/", reservations.cancel, name="cancel-reservation"),
    path(f"{GROUP}agents/", groups.move_agent, name="resource-group-agents"),
]
