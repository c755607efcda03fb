"""Menu entries of the scheduler."""

from django.utils.translation import gettext_noop

from common.pages.navigation import MenuItem, Section
from common.pages.navigation import register as register_item


def register() -> None:
    register_item(MenuItem(gettext_noop("Queue"), "queue", "hourglass", Section.METRICS, order=50))
