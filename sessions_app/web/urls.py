from django.urls import path

from sessions_app.web import arrays, bulk, detail, launcher, lists, person_limits, priorities, templates

urlpatterns = [
    path("", lists.session_list, name="session-list"),
    path("export/", lists.session_export, name="session-export"),
    path("stop/", bulk.stop_many, name="session-stop-many"),
    path("keep/", bulk.keep_many, name="session-keep-many"),
    path("arrays/<uuid:array_id>/stop/", arrays.array_stop, name="array-stop"),
    path("arrays/<uuid:array_id>/keep/", arrays.array_keep, name="array-keep"),
    path("new/", launcher.launcher, name="session-new"),
    path("new/summary/", launcher.launch_summary, name="session-summary"),
    path("templates/", templates.template_list, name="session-templates"),
    path("templates/new/", templates.new_template, name="new-template"),
    path("templates/<int:template_id>/start/", templates.start_template, name="start-template"),
    path("templates/<int:template_id>/delete/", templates.delete_template, name="delete-template"),
    path("quick-start/", launcher.quick_start, name="session-quick-start"),
    path("people/<int:user_id>/limits/", person_limits.person_limits, name="person-limits"),
    path("<uuid:session_id>/", detail.session_detail, name="session-detail"),
    path("<uuid:session_id>/terminal/", detail.session_terminal, name="session-terminal"),
    path("<uuid:session_id>/log/", detail.session_log, name="session-log"),
    path("<uuid:session_id>/stop/", detail.session_stop, name="session-stop"),
    path("<uuid:session_id>/extend/", detail.session_extend, name="session-extend"),
    path("<uuid:session_id>/priority/", priorities.session_priority, name="session-priority"),
    path("<uuid:session_id>/keep/", detail.session_keep, name="session-keep"),
    path("<uuid:session_id>/start-again/", launcher.start_again, name="session-start-again"),
]
