"""Websocket routes of the portal."""

from django.urls import path

from sessions_app.gateway.processes.exec_socket import ExecSocket
from sessions_app.gateway.processes.terminal_socket import TerminalSocket

# For pages: after the origin check and portal sign-in.
websocket_urlpatterns = [
    path("ws/sessions/<uuid:session_id>/terminal/", TerminalSocket.as_asgi(), name="ws-terminal")
]

# For programs with a token.
program_urlpatterns = [path("api/v1/sessions/<uuid:session_id>/exec/", ExecSocket.as_asgi(), name="ws-exec")]
