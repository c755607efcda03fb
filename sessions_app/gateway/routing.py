"""Websockets of the portal itself."""

from django.urls import path

from sessions_app.gateway.terminal import TerminalConsumer

websocket_urlpatterns = [
    path("ws/sessions/<uuid:session_id>/terminal/", TerminalConsumer.as_asgi(), name="ws-terminal")
]
