"""Connect one process in a session to one websocket; the base of terminals and exec.

The faster side waits for the slower one, and the process ends with the websocket, whoever closes
it. The websocket is always read, however much output waits, so that its end, signals and
acknowledgements are seen at once.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from agents.models import Agent
from agents.runtime.port import ContainerGone, RuntimeFault
from agents.runtime.port_async import Channel, Process, ProcessSpec
from agents.selectors import async_runtime_of
from common.errors import BerthError, Conflict, InvalidInput
from common.messaging.concurrency import ConcurrencyLimit, TooManyOpen
from sessions_app.gateway.activity.recorder import activity_recorder
from sessions_app.gateway.auth.authorizer import in_database, is_ending, open_connections
from sessions_app.gateway.processes.process_reaper import ProcessOwner, process_owners
from sessions_app.gateway.proxy.access_types import AccessUnknown, Presence
from sessions_app.gateway.proxy.open_connections import ConnectionCut, ConnectionKind, TooManyConnections
from sessions_app.gateway.proxy.request import CUT_CODE, client_language
from sessions_app.models import Interaction
from transport.server.asgi import Message, Receive, Scope, Send

ENDED_CODE, LOST_CODE, NONSENSE_CODE = 1000, 1011, 4400
NO_SHELL_CODE, TOO_MANY_CODE = 4410, 4429
open_processes = ConcurrencyLimit("processes", 128)
"""Limit per user, over all sessions."""

SEND_PATIENCE_S = 120
"""A client that accepts no data for this time counts as gone."""

COMMANDS_LIMIT = 32
LARGEST_SIDE = 1000
LARGEST_TEXT = 256 * 2**10


@dataclass(frozen=True, slots=True)
class ProcessOrder:
    """Process to run, with its place and the access that permits it."""

    presence: Presence
    container: str
    agent: Agent
    spec: ProcessSpec


class ProcessSocket(ABC):
    """One websocket from its handshake to the end of its process. Subclasses define who may
    connect, what is run, and the message format.
    """

    input_limit: int
    """Limit of input bytes that wait for the process."""

    interaction: Interaction
    """Kind of user activity recorded for input and output."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.process: Process | None = None
        self._receive = receive
        self._raw_send = send
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._size: tuple[int, int] | None = None
        self._is_closing = False
        self._session_id: UUID | None = None
        self._commands: asyncio.Queue[Callable[[Process], Awaitable[None]]] = asyncio.Queue(COMMANDS_LIMIT)

    @classmethod
    def as_asgi(cls) -> Any:
        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            with client_language(scope["headers"]):
                await cls(scope, receive, send).run()

        return application

    # Implemented by subclasses

    @abstractmethod
    def may_connect(self) -> bool:
        """Return True to accept the handshake. Must not block."""

    @abstractmethod
    async def order(self) -> ProcessOrder:
        """Check access and return what to run. Raises BerthError, AccessUnknown."""

    @abstractmethod
    async def receive_text(self, text: str) -> None:
        """Handle a text message. Raises InvalidInput, or any error of parsing JSON."""

    @abstractmethod
    async def receive_bytes(self, data: bytes) -> None:
        """Handle a binary message. Raises InvalidInput."""

    @abstractmethod
    async def send_start(self) -> None:
        """Notify the client that the process runs."""

    @abstractmethod
    async def send_output(self, channel: Channel, data: bytes) -> None:
        """Send output of the process; waits while the client does not accept it."""

    @abstractmethod
    async def send_end(self, code: int | None) -> None:
        """Notify the client that the process has ended."""

    @abstractmethod
    async def send_refusal(self, refusal: BerthError) -> None:
        """Send the reason why there is no process, or no longer."""

    @property
    def subprotocol(self) -> str | None:
        return None

    # Used by subclasses

    def write_input(self, data: bytes) -> None:
        """Write input to the process; buffered while it starts. Raises InvalidInput beyond `input_limit`."""
        if self.process is None:
            self._early.append(data)
            self._early_bytes += len(data)
        else:
            self.process.write(data)
        if self.waiting_bytes > self.input_limit:
            raise InvalidInput(_("This is more than the program takes in."))

    @property
    def waiting_bytes(self) -> int:
        """Bytes of input that the process has not taken yet."""
        return self._early_bytes if self.process is None else self.process.unwritten_bytes

    def resize(self, columns: Any, rows: Any) -> None:
        """Resize the terminal; only the newest size is applied. Raises ValueError, TypeError."""
        is_waiting = self._size is not None
        self._size = clamp_side(columns), clamp_side(rows)
        if self.process is not None and not is_waiting:
            self.enqueue_command(self._resize_now)

    def enqueue_command(self, command: Callable[[Process], Awaitable[None]]) -> None:
        """Queue an engine call for the process; calls run in order. Raises InvalidInput if the
        queue is full.
        """
        try:
            self._commands.put_nowait(command)
        except asyncio.QueueFull:
            raise InvalidInput(_("These are more orders than the process can follow.")) from None

    def record(self) -> None:
        """Record user activity; ignored before the process runs."""
        if self._session_id is not None:
            activity_recorder().record(self._session_id, self.interaction)

    def record_output(self) -> None:
        """Record output taken by the client as user activity: watching a program counts."""
        self.record()

    async def send(self, message: Message) -> None:
        """Send a message. Raises OSError or TimeoutError if the client is gone."""
        async with asyncio.timeout(SEND_PATIENCE_S):
            await self._raw_send(message)

    async def send_json(self, message: dict[str, Any]) -> None:
        await self.send({"type": "websocket.send", "text": json.dumps(message)})

    # Life of a connection

    async def run(self) -> None:
        await self._receive()
        if not self.may_connect():
            await self.send({"type": "websocket.close"})
            return
        await self.send({"type": "websocket.accept", "subprotocol": self.subprotocol})
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(self._serve()), loop.create_task(self._listen())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _listen(self) -> None:
        """Handle messages until the client disconnects or sends an invalid one."""
        try:
            while (message := await self._receive())["type"] == "websocket.receive":
                if (data := message.get("bytes")) is not None:
                    await self.receive_bytes(data)
                elif len(text := message["text"]) <= LARGEST_TEXT:
                    await self.receive_text(text)
                else:
                    raise InvalidInput(_("This message is too long."))
        except InvalidInput as refusal:
            await self._refuse(refusal, NONSENSE_CODE)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            await self._refuse(InvalidInput(_("This message cannot be understood.")), NONSENSE_CODE)
        except (OSError, TimeoutError):
            return

    async def _serve(self) -> None:
        try:
            order = await self.order()
            async with open_processes.hold(order.presence.login.user_id):
                async with open_connections().track(order.presence, ConnectionKind.TERMINAL):
                    await self._run_process(order)
        except BerthError as refusal:
            await self._refuse(refusal, 4000 + refusal.http_status)
        except (TooManyConnections, TooManyOpen):
            sentence = _("There are as many open here as there may be. Close one.")
            await self._refuse(Conflict(sentence, code="too_many"), TOO_MANY_CODE)
        except ConnectionCut:
            sentence = _("Access has ended: the session stopped, or you were signed out.")
            await self._refuse(Conflict(sentence, code="access_ended"), CUT_CODE)
        except ContainerGone:
            sentence = _("The container is gone, or has no shell.")
            await self._refuse(Conflict(sentence, code="no_shell"), NO_SHELL_CODE)
        except (RuntimeFault, AccessUnknown):
            await self._close(LOST_CODE)
        except (OSError, TimeoutError):
            return

    async def _run_process(self, order: ProcessOrder) -> None:
        runtime = async_runtime_of(order.agent)
        self._session_id = order.presence.session_id
        with process_owners().new_owner(order.agent, order.container) as owner:
            columns, rows = self._size or (order.spec.columns, order.spec.rows)
            spec = replace(order.spec, owner=owner.name, columns=columns, rows=rows)
            process = await runtime.open_process(order.container, spec)
            following = asyncio.get_running_loop().create_task(self._run_commands(process))
            has_ended = False
            try:
                self._begin(process, (columns, rows))
                await self.send_start()
                while (said := await process.read())[1]:
                    await self.send_output(*said)
                    self.record_output()
                has_ended = True
                await self.send_end(await process.exit_code())
                await self._close(ENDED_CODE)
            finally:
                following.cancel()
                # The engine never ends a process whose connection is gone, so this must survive a
                # second cancellation.
                await owner.settle(self._release(owner, process, has_ended=has_ended))

    async def _release(self, owner: ProcessOwner, process: Process, *, has_ended: bool) -> None:
        """Hang up the process, unless the session is ending: then its container signals all
        processes and gives them time to stop (`main_process`), which hanging up would cut short.
        """
        session_id = self._session_id
        if not has_ended and session_id is not None and await _is_ending(session_id):
            owner.leave(process)
        else:
            await owner.end(process)

    def _begin(self, process: Process, size: tuple[int, int]) -> None:
        """Pass on input and the size that arrived while the process was starting."""
        self.process = process
        for data in self._early:
            process.write(data)
        self._early.clear()
        self._early_bytes = 0
        if self._size is not None:
            is_new = self._size != size
            if is_new:
                self.enqueue_command(self._resize_now)
            else:
                self._size = None

    async def _run_commands(self, process: Process) -> None:
        while True:
            command = await self._commands.get()
            with suppress(RuntimeFault):  # reading meets the same fault and notifies the client
                await command(process)

    async def _resize_now(self, process: Process) -> None:
        if self._size is not None:
            size, self._size = self._size, None
            await process.resize(*size)

    async def _refuse(self, refusal: BerthError, code: int) -> None:
        if not self._is_closing:
            with suppress(OSError, TimeoutError):
                await self.send_refusal(refusal)
            await self._close(code)

    async def _close(self, code: int) -> None:
        if not self._is_closing:
            self._is_closing = True
            with suppress(OSError, TimeoutError):
                await self.send({"type": "websocket.close", "code": code})


async def _is_ending(session_id: UUID) -> bool:
    """Return True if the session is ending; False if the database does not answer."""
    try:
        return await in_database(is_ending, session_id)
    except AccessUnknown:
        return False


def clamp_side(value: Any) -> int:
    """Clamp columns or rows of a terminal to 1..LARGEST_SIDE. Raises ValueError, TypeError, OverflowError."""
    return min(max(int(value), 1), LARGEST_SIDE)
