"""A terminal in the page: a shell in a container of a session, over a websocket.

Binary frames carry the terminal's bytes both ways. Text frames are JSON: up {"type": "resize", "columns", "rows"} and
{"type": "ack", "bytes"}; down {"type": "exit", "code"} and {"type": "error", "message"}. Output stops while more than
`WINDOW_BYTES` are not acknowledged, so a browser that cannot keep up holds back the shell, not our memory.
"""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer

from accounts.logins import Login
from accounts.models import User
from agents.models import Agent
from agents.runtime.base import ContainerGone, RuntimeFault
from agents.runtime.base_async import Shell
from agents.selectors import async_runtime_of
from common.errors import BerthError, Conflict, NotAuthenticated
from sessions_app.gateway.access import actor_of_user, in_database, open_connections
from sessions_app.gateway.call import CUT_CODE
from sessions_app.gateway.connections import ConnectionCut, Kind, TooManyConnections
from sessions_app.gateway.fetch_rules import allows_websocket, header
from sessions_app.gateway.ports import AccessUnknown, Presence
from sessions_app.selectors import Action, access_session, kernel_named

WINDOW_BYTES = 512 * 1024
# What a person has typed or pasted and the shell has not read yet.
TYPED_LIMIT_BYTES = 4 * 1024 * 1024
LARGEST_SIDE = 1000
ENDED_CODE, LOST_CODE, REFUSED_CODE = 1000, 1011, 4400


class TerminalConsumer(AsyncWebsocketConsumer):
    """One shell. It is ended with its websocket, whoever closes that."""

    async def connect(self) -> None:
        self._typed: asyncio.Queue[bytes | tuple[int, int]] = asyncio.Queue()
        self._typed_bytes = 0
        self._unseen_bytes = 0
        self._may_send = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        scheme = b"https://" if self.scope["scheme"] in ("https", "wss") else b"http://"
        own_origin = scheme + header(self.scope["headers"], b"host").lower()
        if not allows_websocket(self.scope["headers"], own_origin):
            await self.close()
            return
        await self.accept()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def disconnect(self, code: int) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Never waits for the shell: an acknowledgement behind a large paste must get through."""
        if bytes_data is not None:
            self._typed_bytes += len(bytes_data)
            if self._typed_bytes > TYPED_LIMIT_BYTES:
                await self._refuse("This is more than the program in the terminal takes in.", REFUSED_CODE)
                return
            self._typed.put_nowait(bytes_data)
            return
        try:
            self._obey(json.loads(text_data or ""))
        except (ValueError, TypeError, KeyError, AttributeError):
            await self._refuse("The terminal was sent something that it does not understand.", REFUSED_CODE)

    def _obey(self, message: dict[str, Any]) -> None:
        if message["type"] == "ack":
            self._unseen_bytes = max(0, self._unseen_bytes - max(0, int(message["bytes"])))
            if self._unseen_bytes <= WINDOW_BYTES:
                self._may_send.set()
        elif message["type"] == "resize":
            columns, rows = (min(max(int(message[side]), 1), LARGEST_SIDE) for side in ("columns", "rows"))
            self._typed.put_nowait((columns, rows))

    async def _run(self) -> None:
        try:
            presence, container, agent = await in_database(self._find_place)
            async with open_connections().carry(presence, Kind.TERMINAL):
                await self._serve(container, agent)
        except NotAuthenticated as exc:
            await self._refuse(exc.message, 4401)
        except BerthError as exc:
            await self._refuse(exc.message, 4000 + exc.http_status)
        except TooManyConnections:
            await self._refuse("This session has as many terminals open as it may. Close one.", 4429)
        except ConnectionCut:
            await self._refuse("Access has ended: the session stopped, or you were signed out.", CUT_CODE)
        except ContainerGone:
            await self._refuse("The container is gone, or has no shell.", 4410)
        except (RuntimeFault, AccessUnknown):
            await self.close(code=LOST_CODE)  # the page tries again by itself

    def _find_place(self) -> tuple[Presence, str, Agent]:
        """Who is here and in which container the shell belongs. Raises BerthError."""
        user = User.objects.filter(pk=self.scope["user"].pk, is_active=True, domain__is_active=True).first()
        if user is None:
            raise NotAuthenticated("You are signed out. Sign in again and reload this page.")
        session_id: UUID = self.scope["url_route"]["kwargs"]["session_id"]
        session = access_session(actor_of_user(user), session_id, Action.OPEN_TERMINAL)
        names = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("kernel", ["main1"])
        kernel = kernel_named(session, names[0])
        if not session.is_running or kernel.agent is None:
            raise Conflict(
                f"The session “{session.name}” is {session.status.lower()}; a terminal needs a running one."
            )
        login = Login(user_id=user.pk, session_key=self.scope["session"].session_key or "")
        presence = Presence(login, session.pk, Action.OPEN_TERMINAL.value)
        return presence, kernel.container_name, kernel.agent

    async def _serve(self, container: str, agent: Agent) -> None:
        shell = await async_runtime_of(agent).open_shell(container)
        typing = asyncio.get_running_loop().create_task(self._type(shell))
        try:
            while data := await shell.read():
                await self.send(bytes_data=data)
                await self._wait_for_window(len(data))
            await self._tell({"type": "exit", "code": await shell.exit_code()})
            await self.close(code=ENDED_CODE)
        finally:
            typing.cancel()
            # Docker never ends a shell whose connection is gone; a second cancellation must not stop this.
            await asyncio.shield(shell.close())

    async def _wait_for_window(self, sent_bytes: int) -> None:
        self._unseen_bytes += sent_bytes
        while self._unseen_bytes > WINDOW_BYTES:
            self._may_send.clear()
            await self._may_send.wait()

    async def _type(self, shell: Shell) -> None:
        while True:
            typed = await self._typed.get()
            try:
                if isinstance(typed, bytes):
                    await shell.write(typed)
                    self._typed_bytes -= len(typed)
                else:
                    await shell.resize(*typed)
            except RuntimeFault:
                return  # reading meets the same fault and tells the page

    async def _refuse(self, message: str, code: int) -> None:
        await self._tell({"type": "error", "message": message})
        await self.close(code=code)

    async def _tell(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message))
