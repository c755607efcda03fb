"""Registry of menu links: apps add them in `AppConfig.ready`, the portal renders them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop


class Menu(StrEnum):
    """Menus; one is shown at a time, and users with links in both can switch."""

    WORK = "work"
    ADMINISTRATION = "administration"


class Section(StrEnum):
    """Groups of the menus, in display order."""

    WORKLOAD = gettext_noop("Workload")
    STORAGE = gettext_noop("Storage")
    METRICS = gettext_noop("Metrics")
    OPERATIONS = gettext_noop("Operations")
    PEOPLE = gettext_noop("People")
    INFRASTRUCTURE = gettext_noop("Infrastructure")
    SYSTEM = gettext_noop("System")

    @property
    def menu(self) -> Menu:
        is_work = self in (Section.WORKLOAD, Section.STORAGE, Section.METRICS)
        return Menu.WORK if is_work else Menu.ADMINISTRATION


@dataclass(frozen=True, slots=True)
class MenuItem:
    """One menu link. `is_visible` gets the signed-in user; `purpose` is a one-line description for
    lists of pages. `label` and `purpose` are marked with gettext_noop and translated for each
    reader. `pages`: pattern of the paths of its pages, if they do not start with its own.
    """

    label: str
    url_name: str
    icon: str
    section: Section
    order: int = 100
    is_visible: Callable[[Any], bool] = lambda user: True
    purpose: str = ""
    pages: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """Menu item for one user on one page."""

    label: str
    url: str
    icon: str
    section: Section
    is_active: bool
    purpose: str
    keys: str


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """Page of a user's own account settings; `label` is marked with gettext_noop."""

    label: str
    url_name: str
    icon: str


_items: dict[str, MenuItem] = {}
_settings: list[SettingsPage] = []
_keys: dict[str, str] = {}


def register(item: MenuItem) -> None:
    """Add `item` to its menu; a second one with the same URL name replaces the first."""
    _items[item.url_name] = item


def set_settings_pages(pages: Iterable[SettingsPage]) -> None:
    """Set the settings pages, in the order of their tabs."""
    _settings[:] = pages


def settings_tabs(path: str) -> list[dict[str, Any]]:
    """Return tabs (includes/tabs.html) of all settings; the one at `path` is active."""
    return [
        {"label": _(page.label), "url": url, "icon": page.icon, "is_active": path == url}
        for page in _settings
        for url in (reverse(page.url_name),)
    ]


def set_shortcuts(keys: Mapping[str, str]) -> None:
    """Set keyboard shortcuts: {"session-list": "g s"}."""
    _keys.update(keys)


def links_for(user: Any, path: str = "") -> list[Link]:
    """Return the links visible to this user, in menu order; the nearest to `path` is active."""
    shown = sorted((item for item in _items.values() if item.is_visible(user)), key=lambda item: item.order)
    addresses = [(item, reverse(item.url_name)) for item in shown]
    named = (url for item, url in addresses if item.pages and re.match(item.pages, path))
    nearest = max(
        (url for _, url in addresses if path == url or (url != "/" and path.startswith(url))),
        key=len,
        default=None,
    )
    active = next(named, nearest)
    sections = list(Section)
    return sorted(
        (
            Link(
                label=_(item.label),
                url=url,
                icon=item.icon,
                section=item.section,
                is_active=url == active,
                purpose=_(item.purpose) if item.purpose else "",
                keys=_keys.get(item.url_name, ""),
            )
            for item, url in addresses
        ),
        key=lambda link: sections.index(link.section),
    )


def menu_sections(links: list[Link], menu: Menu) -> list[dict[str, Any]]:
    """Return [{"key", "label", "items": [Link]}] of one menu, without empty sections. Keys do not
    depend on the language.
    """
    return [
        {"key": section.name.lower(), "label": _(section.value), "items": items}
        for section in Section
        if section.menu is menu and (items := [link for link in links if link.section is section])
    ]


def menu_of(links: list[Link]) -> Menu:
    """Return the menu of the active link; WORK if none is active."""
    return next((link.section.menu for link in links if link.is_active), Menu.WORK)
