"""The menus are a registry: apps fill it in `AppConfig.ready`, the portal renders it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop


class Menu(StrEnum):
    """One works in one menu at a time; who has links in both can switch."""

    WORK = "work"
    ADMINISTRATION = "administration"


class Section(StrEnum):
    """Groups of the menus, in the order in which they appear."""

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
    """One link of the menu. `is_visible` gets the signed-in user; `purpose` is one line for lists of pages. `label` and
    `purpose` are marked with gettext_noop; they are translated for each reader. `pages`: a pattern of the addresses of its pages where
    these do not begin with its own."""

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
    """A menu item for one person on one page."""

    label: str
    url: str
    icon: str
    section: Section
    is_active: bool
    purpose: str
    keys: str


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """One of the pages on which people look after their own account; `label` is marked with gettext_noop."""

    label: str
    url_name: str
    icon: str


_items: dict[str, MenuItem] = {}
_settings: list[SettingsPage] = []
_keys: dict[str, str] = {}


def register(item: MenuItem) -> None:
    """Put `item` into its menu; a second one with the same URL name replaces the first."""
    _items[item.url_name] = item


def offer_settings(pages: Iterable[SettingsPage]) -> None:
    """The settings of everybody, in the order of their tabs."""
    _settings[:] = pages


def settings_tabs(path: str) -> list[dict[str, Any]]:
    """Tabs (includes/tabs.html) of all settings; the one at `path` is active."""
    return [
        {"label": _(page.label), "url": url, "icon": page.icon, "is_active": path == url}
        for page in _settings
        for url in (reverse(page.url_name),)
    ]


def give_keys(keys: Mapping[str, str]) -> None:
    """Which keys open which pages: {"session-list": "g s"}."""
    _keys.update(keys)


def links_for(user: Any, path: str = "") -> list[Link]:
    """All that this person may go to, in the order of the menus; the one that is nearest to `path` is active."""
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


def sections_of(links: list[Link], menu: Menu) -> list[dict[str, Any]]:
    """[{"key", "label", "items": [Link]}] of one menu; sections without a link are left out. Keys are the same in every
    language."""
    return [
        {"key": section.name.lower(), "label": _(section.value), "items": items}
        for section in Section
        if section.menu is menu and (items := [link for link in links if link.section is section])
    ]


def menu_of(links: list[Link]) -> Menu:
    """The menu that the active link is in; that of the work elsewhere."""
    return next((link.section.menu for link in links if link.is_active), Menu.WORK)
