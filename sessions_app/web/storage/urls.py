"""URLs below /storage-hosts/."""

from django.urls import path

from sessions_app.web.storage import pages

urlpatterns = [
    path("", pages.storage_host_list, name="storage-hosts"),
    path("add/", pages.storage_host_kinds, name="storage-host-kinds"),
    path("add/<slug:storage_kind>/", pages.add_storage_host, name="add-storage-host"),
    path("<int:storage_host_id>/settings/", pages.storage_host_settings, name="storage-host-settings"),
    path("<int:storage_host_id>/rights/", pages.storage_host_rights, name="storage-host-rights"),
    path("<int:storage_host_id>/remove/", pages.remove_storage_host, name="remove-storage-host"),
    path("<int:storage_host_id>/", pages.storage_host_page, name="storage-host"),
    path("<int:storage_host_id>/check/", pages.check_storage_host, name="check-storage-host"),
]
