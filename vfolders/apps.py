from django.apps import AppConfig

from common.pages.navigation import MenuItem, Section, register


class VFoldersConfig(AppConfig):
    name = "vfolders"
    verbose_name = "Folders"

    def ready(self) -> None:
        register(MenuItem(label="Data", url_name="data", icon="folder", section=Section.STORAGE, order=10))
