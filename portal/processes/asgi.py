"""ASGI application of the web process: apps by host name, then Django and websockets."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import django

django.setup(set_prefix=False)  # what Django's handler imports needs its apps

from portal.processes.django_asgi import BodyHandler

django_application = BodyHandler()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.urls import re_path

from agents.runtime.registry import close_async_runtimes
from portal.processes.body_limit import BodyGuard
from portal.processes.body_stream import BodyStream
from portal.processes.lifespan import Lifespan
from portal.processes.upload_work import UploadWork
from sessions_app.gateway.proxy.app_proxy import AppProxy
from sessions_app.gateway.activity.jupyter import notebook_poller
from sessions_app.gateway.activity.recorder import activity_recorder
from sessions_app.gateway.processes.process_reaper import process_owners
from sessions_app.gateway.routing import program_urlpatterns, websocket_urlpatterns

of_pages = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
portal_application = ProtocolTypeRouter(
    {
        "http": BodyStream(BodyGuard(UploadWork(django_application))),  # type: ignore[arg-type]
        "websocket": URLRouter([*program_urlpatterns, re_path("", of_pages)]),
    }
)

app_proxy = AppProxy(apps_domain=settings.BERTH_APPS_DOMAIN, fallback=portal_application)
application = Lifespan(
    app_proxy,
    # Made in the process that serves, at its start; connections end before activity is recorded last.
    on_startup=(
        lambda: process_owners().start(),
        lambda: activity_recorder().start(),
        lambda: notebook_poller().start(),
    ),
    on_shutdown=(
        app_proxy.close,
        lambda: notebook_poller().stop(),
        lambda: activity_recorder().stop(),
        lambda: process_owners().stop(),
        close_async_runtimes,
    ),
)
