"""Start and stop hooks of a web process, by ASGI's lifespan protocol."""

from collections.abc import Awaitable, Callable, Sequence

from transport.server.asgi import AsgiApp, Receive, Scope, Send


class Lifespan:
    """ASGI wrapper that awaits `on_startup` before the server accepts requests and `on_shutdown`
    when it stops, each in order.
    """

    def __init__(
        self,
        application: AsgiApp,
        *,
        on_startup: Sequence[Callable[[], Awaitable[None]]] = (),
        on_shutdown: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self._application = application
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._application(scope, receive, send)
            return
        while (await receive())["type"] != "lifespan.shutdown":
            for begin in self._on_startup:
                await begin()
            await send({"type": "lifespan.startup.complete"})
        for close in self._on_shutdown:
            await close()
        await send({"type": "lifespan.shutdown.complete"})
