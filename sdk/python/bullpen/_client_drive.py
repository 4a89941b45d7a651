"""Carries out the calls of the client, over connections that it keeps."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any, Deque, Iterator, Mapping, Optional, Tuple, TypeVar

from . import _client_requests as requests
from ._client_answers import JobInfo
from ._client_calls import Calls
from ._client_environment import address, token_for
from ._client_steps import Broken, Call, Emit, Exchange, Open, Pause, Read, Stream
from ._client_wire import Connection, tls_context, words_of
from ._http import Answer, Malformed, Parser, Request, parse_url, write_head
from ._version import __version__

D = TypeVar("D", bound="Driver")
T = TypeVar("T")

TIMEOUT = 30.0
MAX_ANSWER = 256 << 20


class Driver:
    """The base class of `Client`, which documents the parameters."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, timeout: Optional[float] = TIMEOUT,
                 ca: Optional[str] = None, *, token_file: Optional[str] = None, connections: int = 8,
                 max_answer: int = MAX_ANSWER) -> None:
        self._target = parse_url(address(url))
        self._context = tls_context(self._target, ca)
        self._headers = fixed_headers(token_for(self._target, token, token_file))
        self._calls = Calls(str(self._target), timeout)
        self._most = connections
        self._max_answer = max_answer
        self._lock = threading.Lock()
        # Both guarded by the lock.
        self._idle: Deque[Connection] = deque()
        self._closed = False
        self._process = os.getpid()

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Calls that run go on to their end; new ones are refused."""
        with self._lock:
            self._closed = True
            idle = list(self._idle)
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _pages(self, words: Tuple[str, ...], names: Tuple[str, ...], filter: Mapping[str, Any], page: int) -> Iterator[JobInfo]:
        after = ""
        while True:
            found, after = self._drive(self._calls.page(requests.listing(words, names, filter, page, after)))
            yield from found
            if not after:
                return

    def _drive(self, call: Call[T]) -> T:
        """Carry out the steps of a call."""
        try:
            step = next(call)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = call.send(None)
                    continue
                try:
                    answer = self._exchange(step)
                except Broken as broken:
                    step = call.throw(broken)
                else:
                    step = call.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            call.close()

    def _exchange(self, step: Exchange) -> Answer:
        until = None if step.within is None else time.monotonic() + step.within
        connection = self._begin(step.request, until, step.within, whole=True)
        answer = connection.parser.answer()
        self._give(connection)
        return answer

    def _stream(self, call: Stream) -> Iterator[Any]:
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
                        time.sleep(step.seconds)
                    elif isinstance(step, Open):
                        if connection is not None:
                            connection.close()
                        connection = self._begin(step.request, time.monotonic() + step.within, step.within, whole=False)
                        value = _opened(connection, step.within)
                    elif isinstance(step, Read) and connection is not None:
                        value = _read(connection, step.within)
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

    def _begin(self, request: Request, until: Optional[float], within: Optional[float], whole: bool) -> Connection:
        """Send a request and read its answer, or the header of it."""
        head = write_head(request, self._target, self._headers)
        connection = self._take(until, within)
        try:
            try:
                connection.send(head, request.body, until, self._max_answer)
                connection.receive(until, whole)
            except (BrokenPipeError, ConnectionResetError):
                connection.receive(until, whole)  # it may have answered before it closed the connection
                connection.parser.reusable = False
            return connection
        except (OSError, Malformed) as error:
            connection.close()
            raise Broken(words_of(error, within), True, partial(connection.parser)) from None
        except BaseException:
            connection.close()  # an answer may be on its way, that no other call must get
            raise

    def _take(self, until: Optional[float], within: Optional[float]) -> Connection:
        """An idle connection, or a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise ValueError("the client is closed")
                if self._process != os.getpid():  # forked: those are the parent's
                    self._process = os.getpid()
                    self._idle.clear()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                try:
                    return Connection(self._target, self._context, until)
                except OSError as error:
                    raise Broken(words_of(error, within), False) from None
            if not connection.stale:
                return connection
            connection.close()

    def _give(self, connection: Connection) -> None:
        """Keep an idle connection."""
        connection.since = time.monotonic()
        over: Optional[Connection] = connection
        with self._lock:
            if connection.parser.reusable and not self._closed and self._most > 0:
                self._idle.append(connection)
                over = self._idle.popleft() if len(self._idle) > self._most else None
        if over is not None:
            over.close()


def fixed_headers(token: Optional[str]) -> Tuple[Tuple[str, str], ...]:
    """The headers of every request."""
    headers: Tuple[Tuple[str, str], ...] = (("User-Agent", f"bullpen-python/{__version__}"),)
    if token is not None:
        if not token.isascii() or not token.isprintable() or not token.strip() or " " in token:
            raise ValueError("the token has characters that are not allowed in a token; does it end with a line feed?")
        headers += (("Authorization", f"Bearer {token}"),)
    return headers


def partial(parser: Parser) -> Optional[Answer]:
    """The result of an answer; None without an answer."""
    return parser.answer() if parser.status else None


def _opened(connection: Connection, within: float) -> Answer:
    """The head of an answer, and its body unless it is a stream."""
    if connection.parser.status == 200:
        return Answer(200, connection.parser.headers, b"")
    try:
        connection.receive(time.monotonic() + within)
    except (OSError, Malformed) as error:
        raise Broken(words_of(error, within), True) from None
    return connection.parser.answer()


def _read(connection: Connection, within: float) -> bytes:
    try:
        return connection.read(time.monotonic() + within)
    except (OSError, Malformed) as error:
        raise Broken(words_of(error, within), True) from None
