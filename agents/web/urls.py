from django.urls import path

from agents.web import (
    connections,
    groups,
    health_rules,
    images,
    limits,
    machine_map,
    reservations,
    sharing,
    vendors,
    views,
)

GROUP = "resource-groups/<int:group_id>/"
RESERVATION = f"{GROUP}reservations/<int:reservation_id>/"
SHARING_RULE = "accelerators/sharing/<int:group_id>/<int:rule_id>/"

urlpatterns = [
    path("images/<int:image_id>/", images.image_page, name="image"),
    path("images/<int:image_id>/bring/", images.bring, name="bring-image"),
    path("images/<int:image_id>/pin/", images.pin, name="pin-image"),
    path("agents/<int:agent_id>/images/remove/", images.remove, name="remove-agent-image"),
    path("agents/", views.agent_list, name="agents"),
    path("agents/new/", connections.new_agent, name="new-agent"),
    path("agents/invitations/<str:machine>/", connections.invitation_state, name="agent-invitation"),
    path(
        "agents/invitations/<int:machine_invitation_id>/cancel/",
        connections.cancel_invitation,
        name="cancel-invitation",
    ),
    path("agents/<int:agent_id>/certificate/", connections.issue_again, name="agent-certificate"),
    path("agents/<int:agent_id>/revoke/", connections.revoke, name="agent-revoke"),
    path("join/<str:code>/", connections.join_script, name="join-machine"),
    path("agents/map/", machine_map.machine_map, name="agent-map"),
    path("agents/export/", views.agent_export, name="agents-export"),
    path("agents/<int:agent_id>/check/", views.check_agent, name="agent-check"),
    path("agents/<int:agent_id>/state/", views.change_state, name="agent-state"),
    path("accelerators/sharing/", sharing.rule_list, name="sharing-rules"),
    path(SHARING_RULE, sharing.rule_page, name="sharing-rule"),
    path(f"{SHARING_RULE}delete/", sharing.delete_rule, name="delete-sharing-rule"),
    path("accelerators/health/", health_rules.health_rules, name="health-rules"),
    path("accelerators/vendors/", vendors.vendor_list, name="vendors"),
    path("accelerators/vendors/new/", vendors.new_vendor, name="new-vendor"),
    path("accelerators/vendors/<int:vendor_id>/", vendors.vendor_page, name="vendor"),
    path("accelerators/vendors/<int:vendor_id>/delete/", vendors.delete_vendor, name="delete-vendor"),
    path("resource-groups/", groups.group_list, name="resource-groups"),
    path("resource-groups/new/", groups.new_group, name="new-resource-group"),
    path(GROUP, groups.group_page, name="resource-group"),
    path(f"{GROUP}state/", groups.change_state, name="resource-group-state"),
    path(f"{GROUP}delete/", groups.delete_group, name="resource-group-delete"),
    path(f"{GROUP}grants/", groups.grant, name="resource-group-grant"),
    path(f"{GROUP}grants/<int:grant_id>/revoke/", groups.revoke, name="resource-group-revoke"),
    path(f"{GROUP}agents/", groups.move_agent, name="resource-group-agents"),
    path(f"{GROUP}limits/", limits.limit_list, name="resource-group-limits"),
    path(f"{GROUP}limits/change/", limits.limit_page, name="resource-group-limit"),
    path(f"{GROUP}limits/remove/", limits.remove, name="remove-group-limit"),
    path(f"{GROUP}reservations/", reservations.reservation_list, name="reservations"),
    path(RESERVATION, reservations.reservation_page, name="reservation"),
    path(f"{RESERVATION}cancel/", reservations.cancel, name="cancel-reservation"),
]
