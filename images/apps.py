from django.apps import AppConfig
from django.utils.translation import gettext_noop

from common.pages.navigation import MenuItem, Section, register


class ImagesConfig(AppConfig):
    name = "images"

    def ready(self) -> None:
        register(MenuItem(gettext_noop("Images"), "images", "box", Section.WORKLOAD, order=30))
