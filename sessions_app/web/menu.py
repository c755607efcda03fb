"""The links of this room in the menu."""

from common.navigation import MenuItem, Section
from common.navigation import register as add_to_menu


def register() -> None:
    add_to_menu(MenuItem("Sessions", "session-list", "terminal-2", Section.WORKLOAD, order=20))
