from django.urls import path

from agents.api.connections import (
    AgentStateView,
    CertificateView,
    InvitationListView,
    InvitationView,
    SshKeyView,
)
from agents.api.devices import DeviceEventListView, DeviceReleaseView, DeviceView, DeviceWithholdView
from agents.api.health_rules import HealthRuleListView, HealthRuleView
from agents.api.images import AgentImageListView, ImageMachineListView
from agents.api.reservations import ReservationListView, ReservationView
from agents.api.sharing import LayoutView, ModelLayoutView, SharingRuleListView, SharingRuleView
from agents.api.vendors import VendorListView, VendorView
from agents.api.views import (
    AgentListView,
    GrantListView,
    GrantView,
    GroupAgentListView,
    ResourceGroupListView,
    ResourceGroupView,
)

GROUP = "resource-groups/<int:group_id>/"
DEVICE = "agents/<int:agent_id>/devices/<int:device_id>/"

urlpatterns = [
    path("accelerator-vendors/", VendorListView.as_view(), name="api-accelerator-vendors"),
    path("accelerator-vendors/<int:vendor_id>/", VendorView.as_view(), name="api-accelerator-vendor"),
    path("accelerator-health-rules/", HealthRuleListView.as_view(), name="api-health-rules"),
    path(
        "accelerator-health-rules/<str:vendor>/<str:rule>/",
        HealthRuleView.as_view(),
        name="api-health-rule",
    ),
    path("agents/", AgentListView.as_view(), name="api-agents"),
    path("agents/invitations/", InvitationListView.as_view(), name="api-agent-invitations"),
    path(
        "agents/invitations/<int:machine_invitation_id>/",
        InvitationView.as_view(),
        name="api-agent-invitation",
    ),
    path("agents/ssh-key/", SshKeyView.as_view(), name="api-agent-ssh-key"),
    path("agents/<int:agent_id>/certificate/", CertificateView.as_view(), name="api-agent-certificate"),
    path("agents/<int:agent_id>/images/", AgentImageListView.as_view(), name="api-agent-images"),
    path("images/<int:image_id>/machines/", ImageMachineListView.as_view(), name="api-image-machines"),
    path("agents/<int:agent_id>/state/", AgentStateView.as_view(), name="api-agent-state"),
    path("resource-groups/", ResourceGroupListView.as_view(), name="api-resource-groups"),
    path(GROUP, ResourceGroupView.as_view(), name="api-resource-group"),
    path(f"{GROUP}grants/", GrantListView.as_view(), name="api-resource-group-grants"),
    path(f"{GROUP}grants/<int:grant_id>/", GrantView.as_view(), name="api-resource-group-grant"),
    path(f"{GROUP}reservations/", ReservationListView.as_view(), name="api-reservations"),
    path(f"{GROUP}reservations/<int:reservation_id>/", ReservationView.as_view(), name="api-reservation"),
    path(f"{GROUP}sharing-rules/", SharingRuleListView.as_view(), name="api-sharing-rules"),
    path(f"{GROUP}sharing-rules/<int:rule_id>/", SharingRuleView.as_view(), name="api-sharing-rule"),
    path(f"{GROUP}layouts/", ModelLayoutView.as_view(), name="api-model-layout"),
    path(DEVICE, DeviceView.as_view(), name="api-device"),
    path(f"{DEVICE}layout/", LayoutView.as_view(), name="api-layout"),
    path(f"{DEVICE}withhold/", DeviceWithholdView.as_view(), name="api-withhold-device"),
    path(f"{DEVICE}release/", DeviceReleaseView.as_view(), name="api-release-device"),
    path(f"{DEVICE}events/", DeviceEventListView.as_view(), name="api-device-events"),
    path(f"{GROUP}agents/", GroupAgentListView.as_view(), name="api-resource-group-agents"),
]
