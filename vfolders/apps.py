from django.apps import AppConfig

from common.i18n import gettext_noop
from common.pages.navigation import MenuItem, Section, register


class VFoldersConfig(AppConfig):
    name = "vfolders"
    verbose_name = "Folders"

    def ready(self) -> None:
        from accounts.selectors import oversees_projects

        register(MenuItem(label="Data", url_name="data", icon="folder", section=Section.STORAGE, order=10))
        register(
            MenuItem(
                gettext_noop("Storage use"),
                "all-folders",
                "chart-bar",
                Section.OPERATIONS,
                order=120,
                is_visible=oversees_projects,
                purpose=gettext_noop("All folders, and how much users, projects and hosts take."),
            )
        )
