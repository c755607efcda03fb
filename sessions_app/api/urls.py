from django.urls import path

from sessions_app.api import (
    arrays,
    callbacks,
    devices,
    files,
    metrics,
    personal,
    presets,
    storage_hosts,
    templates,
    views,
)

urlpatterns = [
    path("dotfiles/", personal.DotfileListView.as_view(), name="api-dotfiles"),
    path("dotfiles/file/", personal.DotfileView.as_view(), name="api-dotfile"),
    path("startup-script/", personal.StartupScriptView.as_view(), name="api-startup-script"),
    path("callback-secret/", callbacks.CallbackSecretView.as_view(), name="api-callback-secret"),
    path("session-templates/", templates.TemplateListView.as_view(), name="api-session-templates"),
    path(
        "session-templates/<int:template_id>/", templates.TemplateView.as_view(), name="api-session-template"
    ),
    path(
        "session-templates/<int:template_id>/start/",
        templates.TemplateStartView.as_view(),
        name="api-start-session-template",
    ),
    path("presets/", presets.PresetListView.as_view(), name="api-presets"),
    path("presets/<int:preset_id>/", presets.PresetView.as_view(), name="api-preset"),
    path("arrays/", arrays.ArrayListView.as_view(), name="api-arrays"),
    path("arrays/<uuid:array_id>/", arrays.ArrayView.as_view(), name="api-array"),
    path("sessions/", views.SessionListView.as_view(), name="api-session-list"),
    path("sessions/check/", views.SessionCheckView.as_view(), name="api-session-check"),
    path("sessions/<uuid:session_id>/", views.SessionDetailView.as_view(), name="api-session-detail"),
    path(
        "sessions/<uuid:session_id>/expected-start/",
        views.ExpectedStartView.as_view(),
        name="api-session-expected-start",
    ),
    path(
        "sessions/<uuid:session_id>/callbacks/",
        callbacks.SessionCallbackListView.as_view(),
        name="api-session-callbacks",
    ),
    path("sessions/<uuid:session_id>/extend/", views.SessionExtendView.as_view(), name="api-session-extend"),
    path(
        "sessions/<uuid:session_id>/priority/",
        views.SessionPriorityView.as_view(),
        name="api-session-priority",
    ),
    path("sessions/<uuid:session_id>/logs/", views.SessionLogView.as_view(), name="api-session-logs"),
    path(
        "sessions/<uuid:session_id>/history/", views.SessionHistoryView.as_view(), name="api-session-history"
    ),
    path(
        "sessions/<uuid:session_id>/metrics/",
        metrics.SessionMetricsView.as_view(),
        name="api-session-metrics",
    ),
    path(
        "sessions/<uuid:session_id>/devices/",
        devices.SessionDevicesView.as_view(),
        name="api-session-devices",
    ),
    path("agents/<int:agent_id>/devices/", devices.AgentDevicesView.as_view(), name="api-agent-devices"),
    path("agents/<int:agent_id>/metrics/", devices.AgentMetricsView.as_view(), name="api-agent-metrics"),
    path(
        "storage-host-kinds/",
        storage_hosts.StorageHostKindListView.as_view(),
        name="api-storage-host-kinds",
    ),
    path(
        "storage-hosts/<int:storage_host_id>/rights/",
        storage_hosts.StorageHostRightsView.as_view(),
        name="api-storage-host-rights",
    ),
    path("storage-hosts/", storage_hosts.StorageHostListView.as_view(), name="api-storage-hosts"),
    path(
        "storage-hosts/<int:storage_host_id>/",
        storage_hosts.StorageHostView.as_view(),
        name="api-storage-host",
    ),
    path(
        "storage-hosts/<int:storage_host_id>/check/",
        storage_hosts.StorageHostCheckView.as_view(),
        name="api-check-storage-host",
    ),
    path("devices/", devices.DeviceListView.as_view(), name="api-devices"),
    path("sessions/<uuid:session_id>/files/", files.SessionDirectoryView.as_view(), name="api-session-files"),
    path("sessions/<uuid:session_id>/files/stat/", files.SessionPathView.as_view(), name="api-session-stat"),
    path(
        "sessions/<uuid:session_id>/files/content/",
        files.SessionFileView.as_view(),
        name="api-session-content",
    ),
    path(
        "sessions/<uuid:session_id>/files/archive/",
        files.SessionArchiveView.as_view(),
        name="api-session-archive",
    ),
]
