"""The two descriptors: one big read into a buffer that is used again, one write of all answers."""

from __future__ import annotations

import io
import os
import select
import threading
from typing import List, Optional

from . import _frames
from ._errors import TaskEnded

READ_SIZE = 64 << 10  # what a pipe holds; more would only be touched, in every worker

# Made with this module: a worker that was forked from a process that has loaded
# it touches only what it reads into, where a new one would be filled with zeros.
_spare: List[bytearray] = []


def make_spare() -> None:
    """Have a buffer ready for the next Reader."""
    if not _spare:
        _spare.append(bytearray(READ_SIZE))


make_spare()


class WriteError(Exception):
    """The host does not read any more."""


class Reader:
    """Frames from the host. The complete ones are in data[start:end]."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._file = io.FileIO(fd, "rb", closefd=False)
        self.data = _spare.pop() if _spare else bytearray(READ_SIZE)
        self.view = memoryview(self.data)
        self.start = 0
        self.end = 0

    def fill(self) -> bool:
        """Read once more; False at the end of file. Call it when no complete frame is left."""
        self._make_room()
        while True:
            with self.view[self.end:] as room:
                n = self._file.readinto(room)
            if n is not None:
                self.end += n
                return n > 0
            select.select([self.fd], [], [])  # somebody made it non-blocking

    def _make_room(self) -> None:
        start, kept = self.start, self.end - self.start
        need = _frames.HEADER_SIZE
        if kept >= need:
            length, kind = _frames.HEADER.unpack_from(self.data, start)[:2]
            _frames.check_header(kind, length)
            need += length
        size = max(need, READ_SIZE)
        if len(self.data) != size and (len(self.data) < need or len(self.data) > READ_SIZE):
            # Grow for a huge frame, and shrink back behind it. Views that
            # handlers still hold keep the old buffer alive, and only that.
            data = bytearray(size)
            data[:kept] = self.view[start:self.end]
            self.data, self.view = data, memoryview(data)
        elif start:
            self.view[:kept] = bytes(self.view[start:self.end])
        self.start, self.end = 0, kept


class Channel:
    """Frames to the host.

    `pending` holds the frames that wait for their write. Adding to it is one
    list operation, from any thread; only the holder of the lock takes from its
    front. Nobody who may stand in a signal handler waits for that lock: they
    say that there is more to write, and its holder looks before it leaves.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pending: List[bytes] = []
        self._lock = threading.Lock()
        self._more = False
        self._main = threading.get_ident()
        self._shield = 0  # written by the main thread only
        self._late: Optional[TaskEnded] = None
        self.forked = False

    def flush(self) -> None:
        """Write all that is pending, and return when it is written. Not in signal handlers."""
        with self._lock:
            self._drain()
        self._help()

    def flush_soon(self) -> None:
        """Write all that is pending, or have it written by the one who writes just now."""
        try:
            self._more = True
            self._help()
        except WriteError as error:
            # Inside of a handler, where an exception could be swallowed.
            give_up(str(error))

    def send(self, frame: bytes) -> None:
        """Write frame behind all that is pending. From any thread, also inside of handlers."""
        if self.forked:
            return
        if threading.get_ident() != self._main:
            self.pending.append(frame)
            self.flush_soon()
            return
        self.pending.append(frame)
        self.flush_shielded()

    def flush_shielded(self) -> None:
        """flush_soon in the main thread, where an exception from a signal handler must not cut a frame in two."""
        self._shield += 1
        try:
            self.flush_soon()
        finally:
            self._shield -= 1
        if self._late is not None and not self._shield:
            late, self._late = self._late, None
            raise late

    def interrupt(self, error: TaskEnded) -> None:
        """Raise error in the main thread; after the write, if it writes now. From signal handlers."""
        if not self._shield:
            raise error
        self._late = error

    def settle(self) -> None:
        """Forget an error that came too late for its task."""
        self._late = None

    def forget(self) -> None:
        """Let go of the descriptor in a forked child."""
        self.forked = True
        self.pending.clear()
        os.close(self.fd)

    def _help(self) -> None:
        while self._more and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def _drain(self) -> None:
        self._more = False
        pending = self.pending
        while pending:
            n = len(pending)
            data = pending[0] if n == 1 else b"".join(pending[:n])
            del pending[:n]
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self.forked:
            return
        try:
            rest: Optional[memoryview] = None
            while True:
                try:
                    n = os.write(self.fd, data if rest is None else rest)
                except BlockingIOError:
                    select.select([], [self.fd], [])
                    continue
                if rest is None:
                    if n == len(data):
                        return
                    rest = memoryview(data)
                rest = rest[n:]
                if not rest:
                    return
        except OSError as error:
            self.pending.clear()
            raise WriteError(f"cannot write to the host: {error.strerror or error}") from None


def complain(text: str) -> None:
    """One line on the real standard error."""
    try:
        os.write(2, f"bullpen: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def give_up(text: str, status: int = 1) -> None:
    """End this process at once, from whatever place."""
    complain(text)
    os._exit(status)
