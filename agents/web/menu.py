"""The links of this app in the menu."""

from common.navigation import MenuItem, Section
from common.navigation import register as register_item


def register() -> None:
    register_item(MenuItem("Agents", "agents", "server", Section.METRICS, order=60))
