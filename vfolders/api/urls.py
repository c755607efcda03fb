from django.urls import path, register_converter
from django.urls.converters import PathConverter

from vfolders.api import directory_entries, usage
from vfolders.api.life_cycle import (
    FolderCloneRetryView,
    FolderCloneView,
    FolderPurgeView,
    FolderRestoreView,
    TrashView,
)
from vfolders.api.sharing import (
    AcceptShareView,
    DeclineShareView,
    FolderInvitationListView,
    LeaveFolderView,
    LinkListView,
    LinkView,
    MountingSessionsView,
    ShareListView,
    ShareView,
)
from vfolders.api.uploads import BundleView, UploadListView, UploadView
from vfolders.api.views import (
    DirectoryView,
    FileView,
    FolderListView,
    FolderUsageView,
    FolderView,
    RootDirectoryView,
)


class EntryPathConverter(PathConverter):
    """Converter for a path in a folder: any characters, including line breaks, which Django's own
    converter rejects.
    """

    regex = "(?s:.+)"


register_converter(EntryPathConverter, "entry_path")

urlpatterns = [
    path("folders/", FolderListView.as_view(), name="api-folders"),
    path("folders/<uuid:folder_id>/", FolderView.as_view(), name="api-folder"),
    path("folders/trash/", TrashView.as_view(), name="api-folder-trash"),
    path("folders/<uuid:folder_id>/clone/", FolderCloneView.as_view(), name="api-folder-clone"),
    path(
        "folders/<uuid:folder_id>/clone/retry/", FolderCloneRetryView.as_view(), name="api-folder-clone-retry"
    ),
    path("folders/<uuid:folder_id>/restore/", FolderRestoreView.as_view(), name="api-folder-restore"),
    path("folders/<uuid:folder_id>/purge/", FolderPurgeView.as_view(), name="api-folder-purge"),
    path("folders/<uuid:folder_id>/usage/", FolderUsageView.as_view(), name="api-folder-usage"),
    path(
        "folders/<uuid:folder_id>/usage/directories/",
        usage.DirectoryUsageView.as_view(),
        name="api-directory-usage",
    ),
    path("folders/<uuid:folder_id>/quota/", usage.FolderQuotaView.as_view(), name="api-folder-quota"),
    path("folders/<uuid:folder_id>/limits/", usage.FolderLimitsView.as_view(), name="api-folder-limits"),
    path("storage/", usage.StorageStatusView.as_view(), name="api-storage-status"),
    path("storage/folders/", usage.AdministeredFolderListView.as_view(), name="api-administered-folders"),
    path("storage/users/", usage.UserTotalListView.as_view(), name="api-user-storage"),
    path("storage/projects/", usage.ProjectTotalListView.as_view(), name="api-project-storage"),
    path("storage/hosts/", usage.HostTotalListView.as_view(), name="api-host-storage"),
    path(
        "storage-hosts/<int:storage_host_id>/limits/", usage.HostLimitsView.as_view(), name="api-host-limits"
    ),
    path("folders/<uuid:folder_id>/bundles/", BundleView.as_view(), name="api-folder-bundles"),
    path("folders/<uuid:folder_id>/uploads/", UploadListView.as_view(), name="api-folder-uploads"),
    path(
        "folders/<uuid:folder_id>/uploads/<uuid:upload_id>/", UploadView.as_view(), name="api-folder-upload"
    ),
    path("folders/<uuid:folder_id>/directories/", DirectoryView.as_view(), name="api-folder-directories"),
    path(
        "folders/<uuid:folder_id>/entries/",
        directory_entries.EntriesView.as_view(),
        name="api-folder-entries",
    ),
    path(
        "folders/<uuid:folder_id>/operations/",
        directory_entries.OperationsView.as_view(),
        name="api-folder-operations",
    ),
    path(
        "file-operations/<uuid:operation_id>/",
        directory_entries.OperationView.as_view(),
        name="api-file-operation",
    ),
    path("folders/<uuid:folder_id>/zip/", directory_entries.ZipView.as_view(), name="api-folder-zip"),
    path(
        "folders/<uuid:folder_id>/search/", directory_entries.SearchView.as_view(), name="api-folder-search"
    ),
    path("folders/<uuid:folder_id>/text/", directory_entries.TextView.as_view(), name="api-folder-text"),
    path(
        "folders/<uuid:folder_id>/trash/", directory_entries.TrashView.as_view(), name="api-deleted-entries"
    ),
    path(
        "folders/<uuid:folder_id>/trash/<str:batch>/restore/",
        directory_entries.RestoreView.as_view(),
        name="api-folder-restore-entries",
    ),
    path("folders/<uuid:folder_id>/shares/", ShareListView.as_view(), name="api-folder-shares"),
    path("folders/<uuid:folder_id>/shares/<uuid:share_id>/", ShareView.as_view(), name="api-folder-share"),
    path("folders/<uuid:folder_id>/leave/", LeaveFolderView.as_view(), name="api-folder-leave"),
    path(
        "folders/<uuid:folder_id>/sessions-without-right/",
        MountingSessionsView.as_view(),
        name="api-folder-sessions",
    ),
    path("folders/<uuid:folder_id>/links/", LinkListView.as_view(), name="api-folder-links"),
    path("folders/<uuid:folder_id>/links/<uuid:link_id>/", LinkView.as_view(), name="api-folder-link"),
    path("folder-invitations/", FolderInvitationListView.as_view(), name="api-folder-invitations"),
    path("folder-invitations/<uuid:share_id>/accept/", AcceptShareView.as_view(), name="api-accept-share"),
    path("folder-invitations/<uuid:share_id>/decline/", DeclineShareView.as_view(), name="api-decline-share"),
    path("folders/<uuid:folder_id>/files/", RootDirectoryView.as_view(), name="api-folder-root"),
    path("folders/<uuid:folder_id>/files/<entry_path:path>", FileView.as_view(), name="api-folder-file"),
]
