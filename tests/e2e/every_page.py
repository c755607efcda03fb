"""Addresses of the pages that people have: what is looked at in all themes and widths."""

from typing import Any
from urllib.parse import urlencode

NOT_THERE = "/no-such-page/"
PAGES = (
    "/",
    "/dashboard/",
    "/sessions/",
    "/sessions/?tab=ended",
    "/sessions/new/",
    "/data/",
    "/data/?tab=shared",
    "/data/?tab=trash",
    "/data/connect/",
    "/images/",
    "/agents/",
    "/queue/",
    "/notifications/",
    "/search/?q=s",
    "/profile/",
    "/profile/security/",
    "/profile/activity/",
    "/profile/tokens/",
    "/profile/ssh-keys/",
    "/sessions/templates/",
    "/sessions/presets/",
    "/profile/callbacks/",
    "/profile/dotfiles/",
    "/profile/preferences/",
    "/api/",
    NOT_THERE,
)
OF_A_FOLDER = ("", "usage/", "life/", "sharing/", "deleted/")
OF_A_SESSION = ("", "terminal/", "why/")
TABS_OF_A_SESSION = ("terminal", "log", "charts", "folders", "history")
OF_DOMAIN_ADMINS = (
    "/",
    "/sessions/",
    "/data/",
    "/data/all/",
    "/agents/",
    "/people/",
    "/people/new/",
    "/people/invitations/",
    "/people/import/",
    "/projects/",
    "/policies/",
    "/budgets/",
    "/budgets/new/",
    "/audit/",
)
OF_SUPERADMINS = (
    "/",
    "/dashboard/",
    "/sessions/",
    "/images/",
    "/agents/",
    "/administration/",
    "/people/",
    "/people/?tab=closed",
    "/people/new/",
    "/people/invitations/",
    "/projects/",
    "/domains/",
    "/policies/",
    "/policies/new/",
    "/budgets/",
    "/budgets/prices/",
    "/data/all/",
    "/data/all/users/",
    "/data/all/projects/",
    "/data/all/hosts/",
    "/data/all/hosts/1/",  # of the set-up
    "/storage-hosts/",
    "/storage-hosts/add/",
    "/storage-hosts/add/nfs/",
    "/storage-hosts/1/",
    "/storage-hosts/1/settings/",
    "/storage-hosts/1/rights/",
    "/accelerators/",
    "/accelerators/sharing/",
    "/accelerators/health/",
    "/accelerators/vendors/",
    "/accelerators/vendors/new/",
    "/agents/1/",  # of this machine
    "/images/1/",  # of the set-up
    "/resource-groups/",
    "/resource-groups/new/",
    "/resource-groups/1/",  # with which a portal begins
    "/resource-groups/1/weights/",
    "/resource-groups/1/limits/",
    "/resource-groups/1/reservations/",
    "/resource-groups/1/reservations/?view=month",
    "/sessions/presets/",
    "/resource-groups/1/scheduler/",
    "/audit/",
    "/audit/?outcome=failed&q=nothing",
    "/styleguide/",
)


def pages_of_session(session: dict[str, Any]) -> tuple[str, ...]:
    page = f"/sessions/{session['id']}/"
    return (*(page + rest for rest in OF_A_SESSION), *(f"{page}?tab={tab}" for tab in TABS_OF_A_SESSION))


def pages_of_folder(folder_id: str, file: str) -> tuple[str, ...]:
    """Return the pages of the folder and of a file in it."""
    page = f"/data/{folder_id}/"
    return (*(page + rest for rest in OF_A_FOLDER), f"{page}file/?{urlencode({'path': file})}")


def page_of_reservation(reservation: dict[str, Any]) -> str:
    return f"/resource-groups/1/reservations/{reservation['id']}/"


def page_of_limit(limit: dict[str, Any]) -> str:
    return f"/resource-groups/1/limits/change/?{urlencode({'limit': limit['name']})}"


def page_of_tick(tick: dict[str, Any]) -> str:
    """Of the group with which a portal begins."""
    return f"/resource-groups/1/scheduler/{tick['id']}/"


def pages_of_people(users: list[dict[str, Any]], projects: list[dict[str, Any]]) -> tuple[str, ...]:
    """Of one who may be closed, and of a project."""
    user = next(each for each in users if each["role"] == "user")
    return (
        f"/sessions/people/{user['id']}/limits/",
        f"/people/{user['id']}/",
        f"/people/{user['id']}/close/",
        f"/projects/{projects[0]['id']}/",
        f"/projects/{projects[0]['id']}/rules/",
    )
