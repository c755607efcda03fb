"""URLs under /api/v1/ of the portal as a whole."""

from django.urls import path

from portal.api.audit import AuditListView
from portal.api.notifications import NotificationListView, ReadAllView, ReadView
from portal.api.preferences import PreferencesView
from portal.api.views import EventStreamView, HealthView

urlpatterns = [
    path("health/", HealthView.as_view(), name="api-health"),
    path("events/", EventStreamView.as_view(), name="api-events"),
    path("me/preferences/", PreferencesView.as_view(), name="api-preferences"),
    path("audit/", AuditListView.as_view(), name="api-audit"),
    path("notifications/", NotificationListView.as_view(), name="api-notifications"),
    path("notifications/read/", ReadAllView.as_view(), name="api-notifications-read"),
    path("notifications/<int:notification_id>/read/", ReadView.as_view(), name="api-notification-read"),
]
