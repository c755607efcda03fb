"""Start the apps of a session and choose their start directory."""

from uuid import UUID

import redis
from django.core.cache import cache
from django.utils.translation import gettext as _

from agents.runtime.port import RuntimeFault
from agents.selectors import runtime_of
from common.errors import NotFound, Unavailable
from common.values.text import quoted
from images.core.labels import AppHint
from sessions_app.core.container_spec import HOME, build_app_argv
from sessions_app.models import ComputeSession
from sessions_app.selectors import find_kernel, not_running

APP_START_S = 10


def start_app(session_id: UUID, app_name: str) -> None:
    """Start an app of the session's image in its main container; repeated calls within APP_START_S
    do nothing. A second start later is harmless: the process finds the port taken and ends. Raises
    NotFound for an app that the image does not declare, Conflict if the session does not run,
    Unavailable if the engine does not answer.
    """
    session = ComputeSession.objects.with_parts().get(pk=session_id)
    if not session.is_running:
        raise not_running(session)
    app = find_app(session, app_name)
    kernel = find_kernel(session)
    if not app.command or not _is_first_request(session_id, app_name):
        return  # the image starts it by itself, or it is starting
    argv = build_app_argv(app.command, port=app.port, start_dir=start_directory(session))
    try:
        runtime_of(kernel.placed_agent).start_process(
            kernel.container_name, argv, environment={"BERTH_APP_TOKEN": session.app_token}
        )
    except RuntimeFault as error:
        sentence = _("The machine of “{session}” did not start {app}: {error}")
        raise Unavailable(sentence.format(session=session.name, app=app.title, error=error)) from error


def _is_first_request(session_id: UUID, app_name: str) -> bool:
    """Return True if the app was not requested within the last APP_START_S; always True without
    Redis, because a second start only adds noise to the log.
    """
    try:
        return bool(cache.add(f"app-asked:{session_id}:{app_name}", 1, timeout=APP_START_S))
    except redis.RedisError:
        return True


def start_directory(session: ComputeSession) -> str:
    """Return the start directory of apps: the first writable mount, because only files in folders
    persist; else HOME.
    """
    return next((mount.path for mount in session.mounts.all() if not mount.is_readonly), HOME)


def find_app(session: ComputeSession, app_name: str) -> AppHint:
    """Return the app `app_name` as declared by the session's image. Raises NotFound."""
    apps = session.image.app_hints
    for app in apps:
        if app.name == app_name:
            return app
    known = ", ".join(app.name for app in apps)
    hint = (
        _("Its apps: {apps}. Any port answers as p<number>.").format(apps=known)
        if known
        else _("Any port answers as p<number>.")
    )
    sentence = _("The image of “{session}” has no app called {app}.")
    raise NotFound(sentence.format(session=session.name, app=quoted(app_name, 20)), hint=hint)
