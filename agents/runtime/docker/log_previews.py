"""Progress bars of containers on a Docker engine, before their line ends.

The log of an engine has a line when it ends, or when it has 16 KiB: a progress bar, which goes back to the beginning of its
line by a carriage return, stands still there. Only who is attached to a container sees it move.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress

from agents.runtime.docker.async_http import EngineHttp
from agents.runtime.docker.exec import ChannelSplitter
from agents.runtime.port import RuntimeFault
from agents.runtime.port_async import Channel

ATTACHED_S = 10.0
HELD_BYTES = 2**14


async def previews(
    http: EngineHttp, name: str, wait: Coroutine[None, None, None]
) -> AsyncGenerator[bytes, None]:
    """Yield what the container writes to lines that have not ended, from a carriage return on, until `wait` returns."""
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
    """Return the text of open lines that nobody took yet, at most its last HELD_BYTES."""

    def __init__(self) -> None:
        self.has_news = asyncio.Event()
        self._text = b""
        self._begun: set[Channel] = set()
        self._ended: set[Channel] = set()

    async def watch(self, http: EngineHttp, name: str) -> None:
        """Listen for ATTACHED_S at most, and whether or not anybody takes what comes: an engine holds a program back of
        whose output 1 MB waits for whoever is attached."""
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
