"""Links that belong to no single room."""

from common.navigation import MenuItem, Section
from common.navigation import register as add_to_menu


def register() -> None:
    add_to_menu(MenuItem("Start", "start", "rocket", Section.WORKLOAD, order=10))
