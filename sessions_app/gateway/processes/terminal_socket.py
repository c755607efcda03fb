"""Websocket for the terminal in the page: a shell in a container of a session.

Binary frames carry the terminal's bytes in both directions. Text frames are JSON: from the client
{"type": "resize", "columns", "rows"} and {"type": "ack", "bytes"}; to the client {"type": "exit",
"code"} and {"type": "error", "message"}. Output pauses while more than `WINDOW_BYTES` are
unacknowledged, so a slow browser slows the shell and does not fill the server's memory.
"""

import asyncio
import json
from typing import Any

from django.utils.translation import gettext as _

from accounts.logins.service import Login, valid_logins
from agents.runtime.port_async import Channel, ProcessSpec
from common.errors import BerthError, NotAuthenticated
from sessions_app.gateway.auth.authorizer import in_database
from sessions_app.gateway.auth.origin_rules import allows_websocket, header
from sessions_app.gateway.auth.websocket_auth import (
    OPEN_TERMINAL,
    client_address,
    enter_session,
    require_no_impersonation,
)
from sessions_app.gateway.processes.process_socket import ProcessOrder, ProcessSocket
from sessions_app.gateway.proxy.access_types import Presence
from sessions_app.models import Interaction
from sessions_app.selectors import Action
from transport.server.asgi import Receive, Scope, Send

WINDOW_BYTES = 512 * 1024
# Limit of typed or pasted input that the shell has not read yet.
TYPED_LIMIT_BYTES = 4 * 1024 * 1024


class TerminalSocket(ProcessSocket):
    """Shell for the signed-in user of the page."""

    input_limit = TYPED_LIMIT_BYTES
    interaction = Interaction.TERMINAL

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._unseen_bytes = 0
        self._may_show = asyncio.Event()
        self._was_typed_in = False

    def may_connect(self) -> bool:
        scheme = b"https://" if self.scope["scheme"] in ("https", "wss") else b"http://"
        own_origin = scheme + header(self.scope["headers"], b"host").lower()
        return allows_websocket(self.scope["headers"], own_origin)

    async def order(self) -> ProcessOrder:
        return await in_database(self._authorize)

    def _authorize(self) -> ProcessOrder:
        key = self.scope["session"].session_key or ""
        login = Login(user_id=self.scope["user"].pk or 0, session_key=key, ip=client_address(self.scope))
        user = valid_logins([login]).get(login)
        if user is None:
            raise NotAuthenticated(_("You are signed out. Sign in again and reload this page."))
        require_no_impersonation(self.scope, user, key)
        session, kernel = enter_session(self.scope, user, action=OPEN_TERMINAL)
        presence = Presence(login, session.pk, Action.OPEN_TERMINAL.value)
        return ProcessOrder(presence, kernel.container_name, kernel.placed_agent, ProcessSpec())

    async def receive_bytes(self, data: bytes) -> None:
        self._was_typed_in = True
        self.record()
        self.write_input(data)

    def record_output(self) -> None:
        """Record output as user activity only after the first input: a page that was merely opened,
        or reloads itself, gets a prompt too.
        """
        if self._was_typed_in:
            self.record()

    async def receive_text(self, text: str) -> None:
        message: dict[str, Any] = json.loads(text)
        if message["type"] == "ack":
            self._unseen_bytes = max(0, self._unseen_bytes - max(0, int(message["bytes"])))
            if self._unseen_bytes <= WINDOW_BYTES:
                self._may_show.set()
        elif message["type"] == "resize":
            self.resize(message["columns"], message["rows"])

    async def send_start(self) -> None:
        return

    async def send_output(self, channel: Channel, data: bytes) -> None:
        await self.send({"type": "websocket.send", "bytes": data})
        self._unseen_bytes += len(data)
        while self._unseen_bytes > WINDOW_BYTES:
            self._may_show.clear()
            await self._may_show.wait()

    async def send_end(self, code: int | None) -> None:
        await self.send_json({"type": "exit", "code": code})

    async def send_refusal(self, refusal: BerthError) -> None:
        await self.send_json({"type": "error", "message": refusal.message})
