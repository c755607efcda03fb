"""Live previews of progress bars in the output of containers on a Docker engine.

The engine logs a line when it ends or reaches 16 KiB, so a progress bar, which rewrites its line
with carriage returns, stands still in the log. Its changes are visible only to clients attached to
the container.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress

from agents.runtime.docker.async_http import EngineHttp
from agents.runtime.docker.encoding import ChannelSplitter
from agents.runtime.port import RuntimeFault
from agents.runtime.port_async import Channel

ATTACHED_S = 10.0
HELD_BYTES = 2**14


async def previews(
    http: EngineHttp, name: str, wait: Coroutine[None, None, None]
) -> AsyncGenerator[bytes, None]:
    """Yield text after a carriage return in lines that have not ended, until `wait` returns."""
    bars = _Bars()
    waiting = asyncio.ensure_future(wait)
    watching = asyncio.ensure_future(bars.watch(http, name))
    waiting.add_done_callback(lambda _: bars.has_news.set())
    try:
        while True:
            await bars.has_news.wait()
            if waiting.done():
                waiting.result()
                return
            yield bars.take()
    finally:
        for task in (waiting, watching):
            task.cancel()
        await asyncio.wait((waiting, watching))


class _Bars:
    """Buffer for text of open lines that was not taken yet, at most its last HELD_BYTES."""

    def __init__(self) -> None:
        self.has_news = asyncio.Event()
        self._text = b""
        self._begun: set[Channel] = set()
        self._ended: set[Channel] = set()

    async def watch(self, http: EngineHttp, name: str) -> None:
        """Read the attached output for at most ATTACHED_S, even if nothing is taken from the
        buffer: an engine blocks a program when an attached client has 1 MB unread.
        """
        with suppress(RuntimeFault, OSError, TimeoutError):
            stream, data = await http.hijack(f"/containers/{name}/attach?stream=1&stdout=1&stderr=1", {})
            try:
                splitter = ChannelSplitter()
                async with asyncio.timeout(ATTACHED_S):
                    while True:
                        for channel, text in splitter.feed(data):
                            self._note(channel, text)
                        if not (data := await stream.read()):
                            return
            finally:
                stream.close()

    def take(self) -> bytes:
        self.has_news.clear()
        text, self._text = self._text, b""
        return text

    def _note(self, channel: Channel, text: bytes) -> None:
        if channel in self._ended:
            return
        text, newline, _ = text.partition(b"\n")
        if newline:  # the log has this line, and is read next
            self._ended.add(channel)
        if channel not in self._begun:
            _, begin, text = text.partition(b"\r")
            if not begin:
                return
            self._begun.add(channel)
            text = begin + text
        if text:
            self._text = (self._text + text)[-HELD_BYTES:]
            self.has_news.set()
