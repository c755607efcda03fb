"""Websocket for `berth exec`: runs one program in a session, with the protocol of ADR 19."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.credentials.keypairs import require_scopes
from accounts.credentials.rate_limit import check_rate, count_request
from accounts.logins.required_actions import find_required_action, required_action_error
from accounts.logins.service import authenticate_token, keypair_login, record_use
from agents.models import Agent
from agents.runtime.port import RuntimeFault
from agents.runtime.port_async import Channel, Process, ProcessSpec
from common.errors import BerthError, InvalidInput, NotAuthenticated
from common.token_scopes import FOR_SESSIONS, TokenScope
from sessions_app.gateway.auth.authorizer import in_database
from sessions_app.gateway.auth.websocket_auth import RUN_PROCESS, client_address, enter_session
from sessions_app.gateway.processes.exec_protocol import (
    INPUT_WINDOW_BYTES,
    SUBPROTOCOL,
    bearer_of,
    parse_order,
    parse_signal,
)
from sessions_app.gateway.processes.process_socket import ProcessOrder, ProcessSocket
from sessions_app.gateway.proxy.access_types import Presence
from sessions_app.models import Interaction
from sessions_app.selectors import Action
from transport.server.asgi import Receive, Scope, Send

ORDER_PATIENCE_S = 30
ACK_BYTES = INPUT_WINDOW_BYTES // 8


class ExecSocket(ProcessSocket):
    """One process for a client with a token. Cookies are ignored, so pages of other origins cannot use it."""

    input_limit = INPUT_WINDOW_BYTES
    interaction = Interaction.COMMAND

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._spec: asyncio.Future[ProcessSpec] = asyncio.get_running_loop().create_future()
        self._unacknowledged_bytes = 0
        self._has_end_of_input = False
        self._drainer: asyncio.Task[None] | None = None

    @property
    def subprotocol(self) -> str | None:
        return SUBPROTOCOL if SUBPROTOCOL in self.scope["subprotocols"] else None

    def may_connect(self) -> bool:
        return True

    async def order(self) -> ProcessOrder:
        target = await in_database(self._authorize)
        try:
            async with asyncio.timeout(ORDER_PATIENCE_S):
                spec = await self._spec
        except TimeoutError:
            sentence = _("Nothing was asked for in {seconds} s.").format(seconds=ORDER_PATIENCE_S)
            raise InvalidInput(sentence, hint=_("Send what to run.")) from None
        return ProcessOrder(*target, spec)

    def _authorize(self) -> tuple[Presence, str, Agent]:
        token = bearer_of(dict(self.scope["headers"]), self.scope["subprotocols"])
        keypair = authenticate_token(token)
        if keypair is None:
            raise NotAuthenticated(
                _("There is no token, or it is unknown, revoked or expired."),
                hint=_("Send “Authorization: Bearer <token>”."),
            )
        ip = client_address(self.scope)
        if demand := find_required_action(keypair.user, ip=ip, is_program=True):
            raise required_action_error(demand, ip)
        record_use(keypair, ip)
        check_rate(count_request(keypair))
        require_scopes(keypair, FOR_SESSIONS)
        session, kernel = enter_session(self.scope, keypair.user, action=RUN_PROCESS, keypair=keypair)
        login = keypair_login(keypair, TokenScope.SESSIONS.value, ip=ip)
        presence = Presence(login, session.pk, Action.OPEN_TERMINAL.value)
        return presence, kernel.container_name, kernel.placed_agent

    async def receive_text(self, text: str) -> None:
        message: Any = json.loads(text)
        if not self._spec.done():
            self._spec.set_result(parse_order(message))
        elif "resize" in message:
            self.resize(message["resize"]["cols"], message["resize"]["rows"])
        elif "signal" in message:
            name = parse_signal(message["signal"])
            self.enqueue_command(lambda process: process.signal(name))
        else:
            raise InvalidInput(_("This message is neither “resize” nor “signal”."))

    async def receive_bytes(self, data: bytes) -> None:
        if not self._spec.done() or data[:1] != b"\0" or self._has_end_of_input:
            raise InvalidInput(_("Input begins with a byte 0, after the first message and before its end."))
        self.record()
        self._unacknowledged_bytes += len(data) - 1
        if self._unacknowledged_bytes > INPUT_WINDOW_BYTES:
            sentence = ngettext(
                "More than {count} byte of input was under way.",
                "More than {count} bytes of input were under way.",
                INPUT_WINDOW_BYTES,
            )
            raise InvalidInput(sentence.format(count=INPUT_WINDOW_BYTES))
        if len(data) > 1:
            self.write_input(data[1:])
        else:
            self._has_end_of_input = True
            if self.process is not None:
                await self.process.end_input()
        await self._acknowledge()

    async def send_start(self) -> None:
        self.record()
        await self.send_json({"started": {"window": INPUT_WINDOW_BYTES}})
        assert self.process is not None
        if self._has_end_of_input:
            await self.process.end_input()
        await self._acknowledge()

    async def send_output(self, channel: Channel, data: bytes) -> None:
        await self.send({"type": "websocket.send", "bytes": bytes((channel,)) + data})

    async def send_end(self, code: int | None) -> None:
        await self.send_json({"exit_code": code})

    async def send_refusal(self, refusal: BerthError) -> None:
        body = refusal.to_json()
        await self.send_json({"error": {name: body[name] for name in ("code", "message", "hint")}})

    async def _acknowledge(self) -> None:
        """Acknowledge taken input: in steps of ACK_BYTES while the process keeps up, every bit
        while it is slow.
        """
        taken = self._unacknowledged_bytes - self.waiting_bytes
        if self.waiting_bytes and self.process is not None:
            if self._drainer is None or self._drainer.done():
                self._drainer = asyncio.get_running_loop().create_task(
                    self._acknowledge_when_taken(self.process)
                )
        elif taken < ACK_BYTES:
            return
        if taken > 0:
            self._unacknowledged_bytes -= taken
            await self.send_json({"ack": taken})

    async def _acknowledge_when_taken(self, process: Process) -> None:
        with suppress(RuntimeFault, OSError, TimeoutError):  # `read` and `send` report the same fault
            await process.drain()
            await self._acknowledge()
