"""Menu entry of the Images page."""

from django.utils.translation import gettext_noop

from common.pages.navigation import MenuItem, Section
from common.pages.navigation import register as add_to_menu


def register() -> None:
    add_to_menu(MenuItem(gettext_noop("Images"), "images", "box", Section.WORKLOAD, order=30))
