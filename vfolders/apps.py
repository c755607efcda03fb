from django.apps import AppConfig

from common.navigation import MenuItem, Section, register


class VFoldersConfig(AppConfig):
    name = "vfolders"
    verbose_name = "Folders"

    def ready(self) -> None:
        from accounts.policies import register_storage_hosts
        from vfolders import leaving
        from vfolders.selectors import storage_host_names

        leaving.register()
        register_storage_hosts(storage_host_names)
        register(MenuItem(label="Data", url_name="data", icon="folder", section=Section.STORAGE, order=10))
