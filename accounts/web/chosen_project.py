"""The current project of a user: chosen in the navigation bar, stored in the session, default of
lists and launches.
"""

from django.http import HttpRequest

KEY = "chosen_project"


def chosen_project(request: HttpRequest) -> str:
    """Return its name, or "" for all projects. Membership is not checked; callers must do so. No
    query.
    """
    # the session belongs to the impersonating user
    is_viewing = getattr(request, "viewing", None) is not None
    return "" if is_viewing else str(request.session.get(KEY, ""))


def chosen_projects(request: HttpRequest) -> tuple[str, ...]:
    """Return the current project as a tuple of at most one name."""
    return tuple(filter(None, [chosen_project(request)]))


def choose_project(request: HttpRequest, name: str) -> None:
    """Set the current project; "" clears it."""
    request.session[KEY] = name
