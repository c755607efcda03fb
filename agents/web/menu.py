"""Menu entry of the Agents page."""

from django.utils.translation import gettext_noop

from common.pages.navigation import MenuItem, Section
from common.pages.navigation import register as register_item


def register() -> None:
    register_item(MenuItem(gettext_noop("Agents"), "agents", "server", Section.METRICS, order=60))
