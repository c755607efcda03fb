"""The project that a person works in now: chosen in the bar, kept with the login, a default for lists and launches."""

from django.http import HttpRequest

KEY = "chosen_project"


def chosen_project(request: HttpRequest) -> str:
    """Its name, or "" for all; whether the person is still in it is for whoever uses it to check. No query."""
    is_viewing = getattr(request, "viewing", None) is not None  # what is kept with the login is the viewer's
    return "" if is_viewing else str(request.session.get(KEY, ""))


def chosen_projects(request: HttpRequest) -> tuple[str, ...]:
    """The same as a list that holds it, or nothing."""
    return tuple(filter(None, [chosen_project(request)]))


def choose_project(request: HttpRequest, name: str) -> None:
    """Remember it; "" forgets it."""
    request.session[KEY] = name
