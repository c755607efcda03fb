from django.urls import path

from vfolders.web import connect, lists, views

urlpatterns = [
    path("", views.data, name="data"),
    path("connect/", connect.connect_page, name="connect-folders"),
    path("export/", lists.folder_export, name="folder-export"),
    path("delete/", lists.delete_many, name="folder-delete-many"),
    path("<uuid:folder_id>/", views.folder_page, name="folder"),
    path("<uuid:folder_id>/download/", views.download_file, name="folder-download"),
    path("<uuid:folder_id>/upload/", views.upload_files, name="folder-upload"),
    path("<uuid:folder_id>/directories/", views.make_directory, name="folder-make-directory"),
    path("<uuid:folder_id>/delete-entry/", views.delete_entry, name="folder-delete-entry"),
    path("<uuid:folder_id>/delete/", views.delete_folder, name="folder-delete"),
]
