"""Menu entries of sessions, templates and presets."""

from django.utils.translation import gettext_noop

from accounts.core.roles import OVERSEERS_OF_ALL
from accounts.selectors import oversees_people
from common.pages.navigation import MenuItem, Section
from common.pages.navigation import register as add_to_menu


def register() -> None:
    add_to_menu(
        MenuItem(gettext_noop("Templates"), "session-templates", "template", Section.WORKLOAD, order=21)
    )
    add_to_menu(
        MenuItem(
            gettext_noop("Presets"),
            "session-presets",
            "adjustments",
            Section.INFRASTRUCTURE,
            is_visible=oversees_people,
            purpose=gettext_noop("Sizes of sessions that people are offered."),
        )
    )
    add_to_menu(
        MenuItem(
            gettext_noop("Storage hosts"),
            "storage-hosts",
            "database",
            Section.INFRASTRUCTURE,
            is_visible=lambda user: user.role in OVERSEERS_OF_ALL,
            purpose=gettext_noop("Where folders are stored, and which machines reach them."),
        )
    )
    add_to_menu(MenuItem(gettext_noop("Sessions"), "session-list", "terminal-2", Section.WORKLOAD, order=20))
