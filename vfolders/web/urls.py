from django.urls import path

from vfolders.web import connect, life_cycle, lists, previews, views

urlpatterns = [
    path("", views.data, name="data"),
    path("connect/", connect.connect_page, name="connect-folders"),
    path("export/", lists.folder_export, name="folder-export"),
    path("trash/", lists.trash_many, name="folder-trash-many"),
    path("restore/", lists.restore_many, name="folder-restore-many"),
    path("purge/", lists.purge_many, name="folder-purge-many"),
    path("<uuid:folder_id>/", views.folder_page, name="folder"),
    path("<uuid:folder_id>/file/", previews.file_page, name="folder-file"),
    path("<uuid:folder_id>/deleted/", previews.deleted_files, name="folder-deleted"),
    path("<uuid:folder_id>/deleted/empty/", previews.empty_deleted, name="folder-empty-deleted"),
    path("<uuid:folder_id>/image/", previews.image, name="folder-image"),
    path("<uuid:folder_id>/download/", views.download_file, name="folder-download"),
    path("<uuid:folder_id>/upload/", views.upload_files, name="folder-upload"),
    path("<uuid:folder_id>/directories/", views.make_directory, name="folder-make-directory"),
    path("<uuid:folder_id>/delete-entry/", views.delete_entry, name="folder-delete-entry"),
    path("<uuid:folder_id>/life/", life_cycle.folder_life, name="folder-life"),
    path("<uuid:folder_id>/rename/", life_cycle.rename, name="folder-rename"),
    path("<uuid:folder_id>/mode/", life_cycle.change_mode, name="folder-mode"),
    path("<uuid:folder_id>/clone/", life_cycle.clone, name="folder-clone"),
    path("<uuid:folder_id>/clone/retry/", life_cycle.retry_clone, name="folder-clone-retry"),
    path("<uuid:folder_id>/trash/", life_cycle.trash_folder, name="folder-trash"),
    path("<uuid:folder_id>/restore/", life_cycle.restore, name="folder-restore"),
    path("<uuid:folder_id>/purge/", life_cycle.purge, name="folder-purge"),
]
