from django.urls import path

from sessions_app.web import launcher, lists, views

urlpatterns = [
    path("", lists.session_list, name="session-list"),
    path("export/", lists.session_export, name="session-export"),
    path("stop/", lists.stop_many, name="session-stop-many"),
    path("new/", launcher.launcher, name="session-new"),
    path("new/summary/", launcher.launch_summary, name="session-summary"),
    path("quick-start/", launcher.quick_start, name="session-quick-start"),
    path("<uuid:session_id>/", views.session_detail, name="session-detail"),
    path("<uuid:session_id>/terminal/", views.session_terminal, name="session-terminal"),
    path("<uuid:session_id>/log/", views.session_log, name="session-log"),
    path("<uuid:session_id>/stop/", views.session_stop, name="session-stop"),
    path("<uuid:session_id>/start-again/", launcher.start_again, name="session-start-again"),
]
