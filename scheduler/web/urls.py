from django.urls import path

from scheduler.web import groups, queue

GROUP = "resource-groups/<int:group_id>/"

urlpatterns = [
    path("queue/", queue.queue_page, name="queue"),
    path("resource-groups/", groups.group_list, name="resource-groups"),
    path("resource-groups/new/", groups.new_group, name="new-resource-group"),
    path(GROUP, groups.group_page, name="resource-group"),
    path(f"{GROUP}state/", groups.change_state, name="resource-group-state"),
    path(f"{GROUP}delete/", groups.delete_group, name="resource-group-delete"),
    path(f"{GROUP}grants/", groups.grant, name="resource-group-grant"),
    path(f"{GROUP}grants/<int:grant_id>/revoke/", groups.revoke, name="resource-group-revoke"),
    path(f"{GROUP}agents/", groups.move_agent, name="resource-group-agents"),
]
