from django.apps import AppConfig
from django.utils.translation import gettext_noop

from common.pages.navigation import MenuItem, Section, register


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        register(MenuItem(gettext_noop("Agents"), "agents", "server", Section.METRICS, order=60))
