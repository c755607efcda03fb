"""URLs of the portal. The access matrix (tests/access) walks this table."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from portal.api.views import SchemaView
from portal.web import audit, notifications, preferences, search
from portal.web.accelerators import accelerators
from portal.web.dashboard import dashboard
from portal.web.devices import agent_page, device_page, forget, quarantine, release, split_device
from portal.web.drain_confirmation import ask_to_drain, begin_maintenance
from portal.web.views import (
    administration,
    api_reference,
    start,
    styleguide,
    styleguide_log,
    styleguide_metrics,
)
from sessions_app.gateway.api import AppTokenView
from vfolders.web.public_links import public_download, public_link

api_v1: list[URLPattern | URLResolver] = [
    path("", include("portal.api.urls")),
    path("", include("accounts.api.urls")),
    path("", include("images.api.urls")),
    path("", include("agents.api.urls")),
    path("", include("vfolders.api.urls")),
    path("", include("sessions_app.api.urls")),
    path("sessions/<uuid:session_id>/apps/<str:app>/token/", AppTokenView.as_view(), name="api-app-token"),
    path("", include("scheduler.api.urls")),
]

urlpatterns = [
    path("", start, name="start"),
    path("dashboard/", dashboard, name="dashboard"),
    path("search/", search.search, name="search"),
    path("project/", search.switch_project, name="switch-project"),
    path("administration/", administration, name="administration"),
    path("audit/", audit.audit_list, name="audit"),
    path("audit/export/", audit.audit_export, name="audit-export"),
    path("audit/<int:entry_id>/", audit.audit_entry, name="audit-entry"),
    path("profile/preferences/", preferences.preferences_page, name="preferences"),
    path("profile/activity/", audit.own_activity, name="own-activity"),
    path("profile/activity/export/", audit.own_activity_export, name="own-activity-export"),
    path("notifications/", notifications.notification_list, name="notifications"),
    path("notifications/bell/", notifications.bell, name="notifications-bell"),
    path("notifications/read/", notifications.read_all, name="read-notifications"),
    path(
        "notifications/<int:notification_id>/read/", notifications.read_notification, name="read-notification"
    ),
    path(
        "announcements/<int:announcement_id>/dismiss/",
        notifications.dismiss_announcement,
        name="dismiss-announcement",
    ),
    path("styleguide/", styleguide, name="styleguide"),
    path("styleguide/log/", styleguide_log, name="styleguide-log"),
    path("styleguide/metrics/", styleguide_metrics, name="styleguide-metrics"),
    path("", include("accounts.web.urls")),
    path("profile/", include("sessions_app.web.personal_urls")),
    path("sessions/", include("sessions_app.web.urls")),
    path("storage-hosts/", include("sessions_app.web.storage.urls")),
    path("apps/", include("sessions_app.gateway.urls")),
    path("data/", include("vfolders.web.urls")),
    path("links/<str:link_code>/", public_link, name="public-link"),
    path("links/<str:link_code>/download/", public_download, name="public-link-download"),
    path("dav/", include("vfolders.webdav.urls")),
    path("images/", include("images.web.urls")),
    path("accelerators/", accelerators, name="accelerators"),
    path("accelerators/<int:device_id>/", device_page, name="accelerator"),
    path("accelerators/<int:device_id>/quarantine/", quarantine, name="quarantine-device"),
    path("accelerators/<int:device_id>/release/", release, name="release-device"),
    path("accelerators/<int:device_id>/forget/", forget, name="forget-device"),
    path("accelerators/<int:device_id>/split/", split_device, name="split-device"),
    path("agents/<int:agent_id>/", agent_page, name="agent"),
    path("agents/<int:agent_id>/drain/", ask_to_drain, name="agent-drain"),
    path("agents/<int:agent_id>/maintenance/", begin_maintenance, name="agent-maintenance"),
    path("", include("agents.web.urls")),
    path("", include("scheduler.web.urls")),
    path("account/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/", include(api_v1)),
    path("api/schema/", SchemaView.as_view(), name="api-schema"),
    path("api/", api_reference, name="api-reference"),
]

handler400 = "common.pages.error_pages.bad_request"
handler403 = "common.pages.error_pages.forbidden"
handler404 = "common.pages.error_pages.not_found"
handler429 = "common.pages.error_pages.too_many_requests"  # used by django-allauth
handler500 = "common.pages.error_pages.server_error"
