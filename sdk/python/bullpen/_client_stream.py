"""Connections to a server on an event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Awaitable, List, Optional, TypeVar

from ._client_steps import Broken
from ._client_wire import CONNECT, IDLE, keep_alive, words_of
from ._http import Answer, Malformed, Parser, Target

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
_HELD = 256 << 10  # bytes that came and are not read yet, after which no more are taken


class Connection(asyncio.Protocol):
    """A connection to the server, used by one call at a time. Whatever goes wrong closes it.

    It is a protocol of its own, and no stream: a stream forgets what it has
    read when a write fails, and that may be the answer which says why.
    """

    def __init__(self) -> None:
        self.since = 0.0  # when it came to rest
        self.parser = Parser(0)
        self._transport: Optional[asyncio.Transport] = None
        self._chunks: List[bytes] = []
        self._size = 0
        self._ended = False
        self._error: Optional[Exception] = None
        self._waiter: "Optional[asyncio.Future[None]]" = None

    @classmethod
    async def make(cls, target: Target, context: "Optional[ssl.SSLContext]", within: Optional[float]) -> "Connection":
        """Connect; Broken where it cannot be."""
        making = asyncio.ensure_future(asyncio.get_running_loop().create_connection(
            cls, target.host, target.port, ssl=context, server_hostname=target.host if context else None))
        try:
            done, _ = await asyncio.wait({making}, timeout=CONNECT if within is None else min(CONNECT, within))
            if not done:
                raise socket.timeout("timed out")
            return making.result()[1]
        except OSError as error:
            making.add_done_callback(_drop)
            making.cancel()
            raise Broken(words_of(error, within), False) from None
        except BaseException:
            making.add_done_callback(_drop)
            making.cancel()
            raise

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _HELD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """The other side has ended; the transport closes itself."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """The connection is gone."""
        self._ended = True
        self._error = exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What a call does.

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def stale(self) -> bool:
        """Whether it cannot be used for another request: closed by the other side, or idle for too long."""
        return (time.monotonic() - self.since > IDLE or self._ended or bool(self._chunks)
                or self._transport is None or self._transport.is_closing())

    async def exchange(self, head: bytes, body: bytes, within: Optional[float], limit: int, whole: bool) -> None:
        """Write a request and read its answer, or the header of it."""
        self.parser = Parser(limit)
        if self._transport is not None:
            # Not waited for: an answer may come before all of it is written.
            self._transport.write(head + body if len(body) < _HELD else head)
            if len(body) >= _HELD:
                self._transport.write(body)
        await self._guard(self._receive(whole), within)

    async def opened(self, within: float) -> Answer:
        """The head of an answer, and its body unless it is a stream."""
        if self.parser.status == 200:
            return Answer(200, self.parser.headers, b"")
        await self._guard(self._receive(True), within)
        return self.parser.answer()

    async def read(self, within: float) -> bytes:
        """Some more of the body; b"" at its end."""
        return await self._guard(self._more(), within)

    async def _receive(self, whole: bool) -> None:
        while not (self.parser.complete or not whole and self.parser.status):
            self.parser.feed(await self._next())

    async def _more(self) -> bytes:
        while True:
            data = self.parser.take()
            if data or self.parser.complete:
                return data
            self.parser.feed(await self._next())

    async def _next(self) -> bytes:
        """What came since the last call; b"" at the end of the connection."""
        while not self._chunks:
            if self._ended:
                if self._error is not None and not self.parser.status:
                    raise self._error
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._size > _HELD and self._transport is not None and not self._ended:
            self._transport.resume_reading()
        self._size = 0
        return data

    async def _guard(self, work: Awaitable[T], within: Optional[float]) -> T:
        """Do work within a time. The timer aborts the connection, which ends the reading: no task is made for it."""
        late = False

        def abort() -> None:
            nonlocal late
            late = True
            self.close()

        timer = None if within is None else asyncio.get_running_loop().call_later(within, abort)
        try:
            result = await work
            if late:  # what looks like the end of the answer is the end of the time
                raise socket.timeout("timed out")
            return result
        except (OSError, Malformed) as error:
            self.close()
            why = words_of(socket.timeout() if late else error, within)
            raise Broken(why, True, self.parser.answer() if self.parser.status else None) from None
        except BaseException:
            self.close()  # an answer may be on its way, that no other call must get
            raise
        finally:
            if timer is not None:
                timer.cancel()


def _drop(made: "asyncio.Task[tuple[asyncio.Transport, Connection]]") -> None:
    """Close a connection that came too late, or for a call that was canceled."""
    if not made.cancelled() and made.exception() is None:
        made.result()[0].abort()
