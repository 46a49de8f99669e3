"""A way to a local server that takes its time, as one to another continent does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self


class SlowProxy:
    """Passes bytes on to a port of this machine, each so many seconds after it came, both ways.

    Bytes on their way do not hold up those behind them: it is latency, not a bottleneck.
    """

    def __init__(self, target: int, seconds: float) -> None:
        self.port = 0
        self.seconds = seconds
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="slow-proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._end.wait()
        server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the server is away
            writer.close()
            return
        try:
            with suppress(asyncio.CancelledError):  # at the end
                await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            if self._end.is_set():  # else each is closed after what is still on its way
                writer.transport.abort()
                back.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                self._later(lambda data=data: writer.is_closing() or writer.write(data))
        except OSError:  # as when the server is killed
            pass
        self._later(writer.close)

    def _later(self, call: Callable[[], object]) -> None:
        if self.seconds:
            self._loop.call_later(self.seconds, call)
        else:
            call()
