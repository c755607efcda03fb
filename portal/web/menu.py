"""Links that belong to no single room."""

from functools import partial
from typing import Any

from common.navigation import MenuItem, Section
from common.navigation import register as add_to_menu


def register() -> None:
    add_to_menu(MenuItem("Start", "start", "rocket", Section.WORKLOAD, order=10))
    administration = partial(MenuItem, section=Section.ADMINISTRATION, is_visible=is_superadmin)
    add_to_menu(administration("Admin site", "admin:index", "shield-lock", order=90))
    add_to_menu(administration("Style guide", "styleguide", "palette", order=95))


def is_superadmin(user: Any) -> bool:
    return bool(user.is_superuser)
