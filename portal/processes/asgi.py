"""ASGI application of the web process: apps by host name, then Django and websockets."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from portal.processes.django_asgi import make_django_application

django_application = make_django_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.urls import re_path

from agents.runtime.registry import close_async_runtimes
from portal.processes.body_limit import BodyGuard
from portal.processes.lifespan import Lifespan
from portal.processes.upload_work import UploadWork
from sessions_app.gateway.proxy.app_proxy import AppProxy
from sessions_app.gateway.activity.recorder import start_noting, stop_noting
from sessions_app.gateway.processes.process_reaper import start_keeping, stop_keeping
from sessions_app.gateway.activity.jupyter import start_asking, stop_asking
from sessions_app.gateway.routing import program_urlpatterns, websocket_urlpatterns

of_pages = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
portal_application = ProtocolTypeRouter(
    {
        "http": BodyGuard(UploadWork(django_application)),  # type: ignore[arg-type]
        "websocket": URLRouter([*program_urlpatterns, re_path("", of_pages)]),
    }
)

app_proxy = AppProxy(apps_domain=settings.BERTH_APPS_DOMAIN, fallback=portal_application)
application = Lifespan(
    app_proxy,
    on_startup=(start_keeping, start_noting, start_asking),
    on_shutdown=(app_proxy.close, stop_asking, stop_noting, stop_keeping, close_async_runtimes),
)
