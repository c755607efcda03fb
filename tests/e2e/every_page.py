"""Addresses of the pages that people have: what is looked at in all themes and widths."""

from typing import Any

PAGES = (
    "/",
    "/dashboard/",
    "/sessions/",
    "/sessions/?tab=ended",
    "/sessions/new/",
    "/data/",
    "/images/",
    "/agents/",
    "/notifications/",
    "/search/?q=s",
    "/profile/",
    "/api/",
    "/no-such-page/",
)
OF_A_SESSION = ("", "terminal/")
TABS_OF_A_SESSION = ("terminal", "log", "charts", "folders", "history")
OF_DOMAIN_ADMINS = ("/", "/sessions/", "/data/", "/agents/")
OF_SUPERADMINS = (
    "/",
    "/dashboard/",
    "/sessions/",
    "/images/",
    "/agents/",
    "/administration/",
    "/styleguide/",
)


def pages_of_session(session: dict[str, Any]) -> tuple[str, ...]:
    page = f"/sessions/{session['id']}/"
    return (*(page + rest for rest in OF_A_SESSION), *(f"{page}?tab={tab}" for tab in TABS_OF_A_SESSION))
