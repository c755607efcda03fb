"""The link of this room in the menu."""

from common.navigation import MenuItem, Section
from common.navigation import register as add_to_menu


def register() -> None:
    add_to_menu(MenuItem("Images", "images", "box", Section.WORKLOAD, order=30))
