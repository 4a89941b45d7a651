"""Carries out the calls of the client for asyncio, over connections that it keeps."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, AsyncIterator, Deque, Mapping, Optional, Tuple, TypeVar

from . import _client_requests as requests
from ._client_answers import JobInfo
from ._client_calls import Calls
from ._client_drive import MAX_ANSWER, TIMEOUT, fixed_headers
from ._client_environment import address, token_for
from ._client_steps import Broken, Call, Emit, Exchange, Open, Pause, Read, Stream
from ._client_stream import Connection
from ._client_wire import tls_context
from ._http import Answer, Request, parse_url, write_head

D = TypeVar("D", bound="AsyncDriver")
T = TypeVar("T")


class AsyncDriver:
    """The base class of `AsyncClient`, which documents the parameters."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, timeout: Optional[float] = TIMEOUT,
                 ca: Optional[str] = None, *, token_file: Optional[str] = None, connections: int = 16, at_once: int = 256,
                 max_answer: int = MAX_ANSWER) -> None:
        self._target = parse_url(address(url))
        self._context = tls_context(self._target, ca)
        self._headers = fixed_headers(token_for(self._target, token, token_file))
        self._calls = Calls(str(self._target), timeout)
        self._most = connections
        self._at_once = at_once
        self._max_answer = max_answer
        # Of the event loop that used the client last.
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._room: Optional[asyncio.Semaphore] = None
        self._idle: Deque[Connection] = deque()
        self._closed = False

    async def __aenter__(self: D) -> D:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Calls that run go on to their end; new ones are refused."""
        self._closed = True
        self._room_here()
        while self._idle:
            self._idle.popleft().close()
        await asyncio.sleep(0)

    async def _pages(self, words: Tuple[str, ...], names: Tuple[str, ...], filter: Mapping[str, Any],
                     page: int) -> AsyncIterator[JobInfo]:
        after = ""
        while True:
            found, after = await self._drive(self._calls.page(requests.listing(words, names, filter, page, after)))
            for one in found:
                yield one
            if not after:
                return

    async def _drive(self, call: Call[T]) -> T:
        """Carry out the steps of a call."""
        try:
            step = next(call)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = call.send(None)
                    continue
                try:
                    answer = await self._exchange(step)
                except Broken as broken:
                    step = call.throw(broken)
                else:
                    step = call.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            call.close()

    async def _exchange(self, step: Exchange) -> Answer:
        async with self._room_here():
            connection = await self._begin(step.request, step.within, whole=True)
            answer = connection.parser.answer()
            self._give(connection)
            return answer

    async def _stream(self, call: Stream) -> AsyncIterator[Any]:
        """Carry out the steps of a stream."""
        connection: Optional[Connection] = None
        try:
            step = next(call)
            while True:
                value: Any = None
                try:
                    if isinstance(step, Emit):
                        yield step.event
                    elif isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                    elif isinstance(step, Open):
                        if connection is not None:
                            connection.close()
                        connection = await self._begin(step.request, step.within, whole=False)
                        value = await connection.opened(step.within)
                    elif isinstance(step, Read) and connection is not None:
                        value = await connection.read(step.within)
                except Broken as broken:
                    step = call.throw(broken)
                else:
                    step = call.send(value)
        except StopIteration:
            return
        finally:
            call.close()
            if connection is not None:
                connection.close()

    def _room_here(self) -> asyncio.Semaphore:
        """The room for connections of the event loop that runs; those of another loop are forgotten."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._room is None:
            for connection in self._idle:
                try:
                    assert self._loop is not None
                    self._loop.call_soon_threadsafe(connection.close)
                except RuntimeError:
                    pass  # that loop is closed, and the connection with it
            self._idle.clear()
            self._loop = loop
            self._room = asyncio.Semaphore(self._at_once)
        return self._room

    async def _begin(self, request: Request, within: Optional[float], whole: bool) -> Connection:
        """Send a request and read its answer, or the header of it."""
        if self._closed:
            raise ValueError("the client is closed")
        self._room_here()
        head = write_head(request, self._target, self._headers)
        begun = time.monotonic()
        connection: Optional[Connection] = None
        while self._idle and connection is None:
            connection = self._idle.pop()
            if connection.stale:
                connection.close()
                connection = None
        if connection is None:
            connection = await Connection.make(self._target, self._context, within)
        left = None if within is None else max(0.001, within - (time.monotonic() - begun))
        await connection.exchange(head, request.body, left, self._max_answer, whole)
        return connection

    def _give(self, connection: Connection) -> None:
        """Keep an idle connection."""
        connection.since = time.monotonic()
        if not connection.parser.reusable or self._closed or self._most < 1:
            connection.close()
            return
        self._idle.append(connection)
        if len(self._idle) > self._most:
            self._idle.popleft().close()
