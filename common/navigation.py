"""The menu is a registry: apps fill it in `AppConfig.ready`, the portal renders it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.urls import reverse


class Section(StrEnum):
    """Groups of the menu, in the order in which they appear."""

    WORKLOAD = "Workload"
    STORAGE = "Storage"
    METRICS = "Metrics"
    ADMINISTRATION = "Administration"


@dataclass(frozen=True, slots=True)
class MenuItem:
    """One link of the menu. `is_visible` gets the signed-in user."""

    label: str
    url_name: str
    icon: str
    section: Section
    order: int = 100
    is_visible: Callable[[Any], bool] = lambda user: True


_items: dict[str, MenuItem] = {}


def register(item: MenuItem) -> None:
    """Put `item` into the menu; a second one with the same URL name replaces the first."""
    _items[item.url_name] = item


def menu_for(user: Any, path: str) -> list[dict[str, Any]]:
    """Sections with their visible links: [{"label", "items": [{"label", "url", "icon", "is_active"}]}]."""
    shown = sorted((item for item in _items.values() if item.is_visible(user)), key=lambda item: item.order)
    links = [(item, reverse(item.url_name)) for item in shown]
    active = max(
        (url for _, url in links if path == url or (url != "/" and path.startswith(url))),
        key=len,
        default=None,
    )
    menu = []
    for section in Section:
        items = [
            {"label": item.label, "url": url, "icon": item.icon, "is_active": url == active}
            for item, url in links
            if item.section is section
        ]
        if items:
            menu.append({"label": section.value, "items": items})
    return menu
