"""Links that belong to no single room, the second menu, and the keys that open pages."""

from functools import partial
from typing import Any

from common.navigation import MenuItem, Section, give_keys
from common.navigation import register as add_to_menu

KEYS = {
    "start": "g h",
    "session-list": "g s",
    "session-new": "n",
    "images": "g i",
    "data": "g d",
    "agents": "g a",
    "notifications": "g n",
    "administration": "g m",
}


def register() -> None:
    add_to_menu(MenuItem("Start", "start", "rocket", Section.WORKLOAD, order=10))
    for_superadmins = partial(MenuItem, is_visible=is_superadmin)
    lines: tuple[tuple[str, str, str, Section, str], ...] = (
        ("Overview", "administration", "dashboard", Section.OPERATIONS, "Whether all parts are well."),
        (
            "Announcements",
            "admin:portal_announcement_changelist",
            "speakerphone",
            Section.OPERATIONS,
            "What every page shows at its top.",
        ),
        (
            "Access log",
            "admin:common_auditentry_changelist",
            "history",
            Section.OPERATIONS,
            "Who did what, from where, with what outcome.",
        ),
        (
            "Users",
            "admin:accounts_user_changelist",
            "users",
            Section.PEOPLE,
            "People, their roles and projects.",
        ),
        (
            "Projects",
            "admin:accounts_project_changelist",
            "folders",
            Section.PEOPLE,
            "Groups that share folders.",
        ),
        ("Domains", "admin:accounts_domain_changelist", "building", Section.PEOPLE, "Tenants."),
        (
            "Resource groups",
            "admin:agents_resourcegroup_changelist",
            "stack-2",
            Section.INFRASTRUCTURE,
            "Sets of agents and who may use them.",
        ),
        (
            "Registries",
            "admin:images_registry_changelist",
            "package",
            Section.INFRASTRUCTURE,
            "Where images come from.",
        ),
        (
            "Storage hosts",
            "admin:vfolders_storagehost_changelist",
            "database",
            Section.INFRASTRUCTURE,
            "Where folders are kept.",
        ),
        ("Admin site", "admin:index", "shield-lock", Section.SYSTEM, "Every row of every table."),
        ("Style guide", "styleguide", "palette", Section.SYSTEM, "Every component of the pages."),
    )
    for order, (label, url_name, icon, section, purpose) in enumerate(lines, start=100):
        add_to_menu(for_superadmins(label, url_name, icon, section, order, purpose=purpose))
    give_keys(KEYS)


def is_superadmin(user: Any) -> bool:
    return bool(user.is_superuser)
