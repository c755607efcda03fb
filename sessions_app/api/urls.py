from django.urls import path

from sessions_app.api import views

urlpatterns = [
    path("sessions/", views.SessionListView.as_view(), name="api-session-list"),
    path("sessions/<uuid:session_id>/", views.SessionDetailView.as_view(), name="api-session-detail"),
    path("sessions/<uuid:session_id>/logs/", views.SessionLogView.as_view(), name="api-session-logs"),
    path(
        "sessions/<uuid:session_id>/history/", views.SessionHistoryView.as_view(), name="api-session-history"
    ),
]
