"""Menu entries of sessions, templates and presets."""

from django.utils.translation import gettext_noop

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
    add_to_menu(MenuItem(gettext_noop("Sessions"), "session-list", "terminal-2", Section.WORKLOAD, order=20))
