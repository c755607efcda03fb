"""URLs below /storage-hosts/."""

from django.urls import path

from sessions_app.web.storage import pages

urlpatterns = [
    path("", pages.storage_host_list, name="storage-hosts"),
    path("<int:storage_host_id>/", pages.storage_host_page, name="storage-host"),
    path("<int:storage_host_id>/check/", pages.check_storage_host, name="check-storage-host"),
]
