"""Menu links of the portal itself, the administration menu, and keyboard shortcuts of pages."""

from typing import Any

from django.utils.translation import gettext_noop

from accounts.core.roles import OVERSEERS_OF_ALL
from accounts.selectors import oversees_people, oversees_projects
from common.pages.navigation import MenuItem, Section, SettingsPage, set_settings_pages, set_shortcuts
from common.pages.navigation import register as add_to_menu

KEYS = {
    "start": "g h",
    "dashboard": "g o",
    "session-list": "g s",
    "session-new": "n",
    "images": "g i",
    "data": "g d",
    "agents": "g a",
    "notifications": "g n",
    "administration": "g m",
    "audit": "g u",
}

# Also the tabs of these pages, by `{% block tabs %}{% settings_tabs %}{% endblock %}`.
SETTINGS = (
    SettingsPage(gettext_noop("Profile"), "profile", "user-circle"),
    SettingsPage(gettext_noop("Keys"), "keys", "key"),
    SettingsPage(gettext_noop("SSH keys"), "ssh-keys", "terminal-2"),
    SettingsPage(gettext_noop("Dotfiles"), "dotfiles", "file-text"),
    SettingsPage(gettext_noop("Callbacks"), "callbacks", "webhook"),
    SettingsPage(gettext_noop("Preferences"), "preferences", "settings"),
    SettingsPage(gettext_noop("Security"), "security", "shield-lock"),
    SettingsPage(gettext_noop("Activity"), "own-activity", "history"),
)


def register() -> None:
    add_to_menu(MenuItem(gettext_noop("Start"), "start", "rocket", Section.WORKLOAD, order=10))
    add_to_menu(MenuItem(gettext_noop("Dashboard"), "dashboard", "dashboard", Section.WORKLOAD, order=15))
    add_to_menu(
        MenuItem(
            gettext_noop("Audit"),
            "audit",
            "history",
            Section.OPERATIONS,
            order=102,
            is_visible=oversees_people,
            purpose=gettext_noop("Who did what, from where, with what outcome."),
        )
    )
    lines: tuple[tuple[str, str, str, Section, str], ...] = (
        (
            gettext_noop("Overview"),
            "administration",
            "dashboard",
            Section.OPERATIONS,
            gettext_noop("Health of all parts."),
        ),
        (
            gettext_noop("Announcements"),
            "admin:portal_announcement_changelist",
            "speakerphone",
            Section.OPERATIONS,
            gettext_noop("Notices at the top of every page."),
        ),
        (
            gettext_noop("People"),
            "people",
            "users",
            Section.PEOPLE,
            gettext_noop("Accounts, their roles and projects."),
        ),
        (
            gettext_noop("Projects"),
            "projects",
            "folders",
            Section.PEOPLE,
            gettext_noop("Groups that share folders, and their members."),
        ),
        (
            gettext_noop("Domains"),
            "domains",
            "building",
            Section.PEOPLE,
            gettext_noop("Organisations that know nothing of each other."),
        ),
        (
            gettext_noop("Resource policies"),
            "policies",
            "gauge",
            Section.PEOPLE,
            gettext_noop("How much people, projects and domains may use."),
        ),
        (
            gettext_noop("Budgets"),
            "budgets",
            "coins",
            Section.PEOPLE,
            gettext_noop("What projects and people may spend, and what is left."),
        ),
        (
            gettext_noop("Resource groups"),
            "resource-groups",
            "stack-2",
            Section.INFRASTRUCTURE,
            gettext_noop("Sets of agents and who may use them."),
        ),
        (
            gettext_noop("Accelerators"),
            "accelerators",
            "cpu",
            Section.INFRASTRUCTURE,
            gettext_noop("Every GPU and NPU: use, health, sharing, vendors."),
        ),
        (
            gettext_noop("Scheduler"),
            "scheduler",
            "list-check",
            Section.INFRASTRUCTURE,
            gettext_noop("Recent scheduling decisions and preemptions."),
        ),
        (
            gettext_noop("Registries"),
            "admin:images_registry_changelist",
            "package",
            Section.INFRASTRUCTURE,
            gettext_noop("Where images come from."),
        ),
        (
            gettext_noop("Admin site"),
            "admin:index",
            "shield-lock",
            Section.SYSTEM,
            gettext_noop("Every row of every table."),
        ),
        (
            gettext_noop("Style guide"),
            "styleguide",
            "palette",
            Section.SYSTEM,
            gettext_noop("Every component of the pages."),
        ),
    )
    for order, (label, url_name, icon, section, purpose) in enumerate(lines, start=100):
        may_see = DELEGATED.get(url_name, is_superadmin)
        pages = ELSEWHERE.get(url_name, "")
        add_to_menu(MenuItem(label, url_name, icon, section, order, may_see, purpose, pages))
    set_shortcuts(KEYS)
    set_settings_pages(SETTINGS)


def is_superadmin(user: Any) -> bool:
    return bool(user.is_superuser)


def oversees_all(user: Any) -> bool:
    return user.role in OVERSEERS_OF_ALL


# Addresses of pages that do not start with the link's own.
ELSEWHERE = {"scheduler": r"/resource-groups/\d+/scheduler/"}
# Administration links that others than superadmins see.
DELEGATED = {
    "people": oversees_people,
    "projects": oversees_projects,
    "policies": oversees_people,
    "budgets": oversees_people,
    "administration": oversees_all,
    "domains": oversees_all,
    "resource-groups": oversees_all,
    "accelerators": oversees_all,
    "scheduler": oversees_all,
}
