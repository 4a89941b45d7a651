"""Blocking connections to a server."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from typing import TYPE_CHECKING, Optional, Tuple, Type

from ._http import Parser, Target

if TYPE_CHECKING:
    import ssl

CONNECT = 10.0  # seconds for a connection to be made
IDLE = 30.0  # seconds after which an unused connection is not used again
_PIECE = 64 << 10


class Connection:
    """A connection to the server, used by one call at a time."""

    def __init__(self, target: Target, context: "Optional[ssl.SSLContext]", until: Optional[float]) -> None:
        """Connect. It raises OSError."""
        left = CONNECT if until is None else min(CONNECT, max(0.001, until - time.monotonic()))
        sock = socket.create_connection((target.host, target.port), left)
        try:
            keep_alive(sock)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=target.host)
        except BaseException:
            sock.close()
            raise
        self.socket = sock
        self.since = 0.0  # when it came to rest
        self.used = False
        self.parser = Parser(0)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    @property
    def stale(self) -> bool:
        """Whether it cannot be used for another request: closed by the other side, or idle for too long."""
        return time.monotonic() - self.since > IDLE or _ready(self.socket, False, 0.0)[0]

    def send(self, head: bytes, body: bytes, until: Optional[float], limit: int) -> None:
        """Write a request. An answer that comes before it is written ends the writing."""
        self.used = True
        self.parser = Parser(limit)
        if len(body) <= _PIECE:
            self._bound(until)
            self.socket.sendall(head + body)
            return
        self._bound(until)
        self.socket.sendall(head)
        view = memoryview(body)
        while view:
            readable, writable = _ready(self.socket, True, _left(until))
            if not readable and not writable:
                raise socket.timeout("timed out")
            # Both without waiting: with TLS what can be read may be no part of an answer.
            self.socket.setblocking(False)
            if readable:
                self._try_read()
                if self.parser.complete:
                    self.parser.reusable = False
                    return
            if writable:
                view = view[self._try_write(view[:_PIECE]):]

    def _try_read(self) -> None:
        try:
            self.parser.feed(self.socket.recv(_PIECE))
        except _not_now():
            pass

    def _try_write(self, data: memoryview) -> int:
        try:
            return self.socket.send(data)
        except _not_now():
            return 0

    def receive(self, until: Optional[float], whole: bool = True) -> None:
        """Read an answer, or its header."""
        while not (self.parser.complete or not whole and self.parser.status):
            self._receive(until)

    def _receive(self, until: Optional[float]) -> None:
        self._bound(until)
        try:
            data = self.socket.recv(_PIECE)
        except ConnectionError:
            if not self.parser.status:
                raise
            data = b""
        self.parser.feed(data)

    def read(self, until: Optional[float]) -> bytes:
        """Some more of the body; b"" at its end."""
        while True:
            data = self.parser.take()
            if data or self.parser.complete:
                return data
            self._receive(until)

    def _bound(self, until: Optional[float]) -> None:
        self.socket.settimeout(_left(until))


def keep_alive(sock: socket.socket) -> None:
    """No delays, and a silent peer is found out within a minute or so."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _left(until: Optional[float]) -> Optional[float]:
    if until is None:
        return None
    left = until - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _not_now() -> "Tuple[Type[OSError], ...]":
    """What is raised where it cannot go on without waiting. A program without TLS has not loaded it."""
    ssl = sys.modules.get("ssl")
    return (BlockingIOError,) if ssl is None else (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def _ready(sock: socket.socket, write: bool, within: Optional[float]) -> Tuple[bool, bool]:
    """Whether sock can be read, and written."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN | (select.POLLOUT if write else 0))
        found = poll.poll(None if within is None else within * 1000)
        mask = found[0][1] if found else 0
        return bool(mask & ~select.POLLOUT), bool(mask & select.POLLOUT)
    readable, writable, _ = select.select([sock], [sock] if write else [], [], within)
    return bool(readable), bool(writable)


def tls_context(target: Target, ca: Optional[str]) -> "Optional[ssl.SSLContext]":
    """How the server is checked; None without TLS."""
    if not target.secure:
        if ca is not None:
            raise ValueError("ca needs an address that begins with https")
        return None
    import ssl  # 15 ms, and only where it is wanted

    return ssl.create_default_context(cafile=ca)


def words_of(error: Exception, seconds: Optional[float]) -> str:
    """The text of a socket error, for people."""
    if isinstance(error, socket.timeout):
        return f"no answer within {seconds:g} s" if seconds is not None else "no answer"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)  # an event loop has words of its own for it
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
