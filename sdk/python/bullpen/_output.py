"""Prints and log records become LOG frames that name the task they belong to."""

from __future__ import annotations

import codecs
import io
import sys
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, TextIO, Tuple

from . import _frames

if TYPE_CHECKING:
    from ._session import Session

_CODES = {_frames.STREAM_STDOUT: _frames.LEVEL_ZERO, _frames.STREAM_STDERR: _frames.LEVEL_ZERO + 8}
_Key = Tuple[int, int]


def log_code(level: int) -> int:
    """The code of LOG for a level of `logging`: 10 debug, 20 info, 30 warning, 40 error."""
    return max(0, min(65535, _frames.LEVEL_ZERO + (level - _frames.INFO) * 4 // 10))


def log_frame(stream: int, code: int, number: int, line: str) -> bytes:
    """One LOG frame. What is longer than the bound is cut."""
    data = line[:_frames.MAX_LOG].encode("utf-8", "backslashreplace")
    return _frames.frame(_frames.LOG, number, _frames.cut_utf8(data, _frames.MAX_LOG), code, aux=stream)


class Lines:
    """Cuts what is written to one stream into lines, apart for each task and thread.

    It needs no lock: each thread has its own place, and taking from a dict is
    one step, so that a signal handler that prints does no harm either.
    """

    def __init__(self, session: "Session", stream: int) -> None:
        self._session = session
        self._stream = stream
        self._code = _CODES[stream]
        self.partial: Dict[_Key, str] = {}

    def write(self, text: str) -> None:
        # The kernel's number: Python's own is given to the next thread at once.
        key = (self._session.running(), threading.get_native_id())
        *lines, rest = (self.partial.pop(key, "") + text).split("\n")
        if rest:
            # One character over the bound is kept to be cut at the end; more is of no use.
            self.partial[key] = rest[:_frames.MAX_LOG + 1]
        if lines:
            self._send(key[0], lines)

    def finish(self, number: int) -> None:
        """Send the unfinished lines of task number."""
        for key in list(self.partial):
            if key[0] == number:
                self._flush(key)

    def finish_all(self) -> None:
        """Send all unfinished lines."""
        for key in list(self.partial):
            self._flush(key)

    def _flush(self, key: _Key) -> None:
        rest = self.partial.pop(key, "")
        if rest:
            self._send(key[0], [rest])

    def _send(self, number: int, lines: List[str]) -> None:
        frames = [log_frame(self._stream, self._code, number, line[:-1] if line.endswith("\r") else line)
                  for line in lines]
        self._session.channel.send(b"".join(frames))


class _Binary(io.RawIOBase):
    """What ``sys.stdout.buffer`` is: bytes become the same lines."""

    def __init__(self, lines: Lines, fd: int) -> None:
        self._lines = lines
        self._fd = fd
        self._decoder: Optional[codecs.IncrementalDecoder] = None  # few workers write bytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: object) -> int:
        raw = bytes(memoryview(data))  # type: ignore[arg-type]
        if self._decoder is None:
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines.write(self._decoder.decode(raw))
        return len(raw)


class _Text(io.TextIOBase):
    """Stands in for ``sys.stdout`` or ``sys.stderr``. Its descriptor stays the real one."""

    encoding = "utf-8"
    errors = "backslashreplace"
    line_buffering = True

    def __init__(self, lines: Lines, fd: int) -> None:
        self._lines = lines
        self._fd = fd
        self.name = "<stdout>" if fd == 1 else "<stderr>"
        self.mode = "w"
        self.buffer = _Binary(lines, fd)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._lines.write(text)
        return len(text)

    def close(self) -> None:
        """The stream of a worker stays open."""


def _records(session: "Session") -> Any:
    """A handler of logging that sends records with the level and the task that they have."""
    import logging

    class Records(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                session.log(self.format(record), record.levelno, session.running())
            except Exception:  # noqa: BLE001 - as every handler of logging does
                self.handleError(record)

    handler = Records()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    return handler


class Bridges:
    """All of the above, put in place for the time of one session."""

    def __init__(self, session: "Session") -> None:
        self.stdout = Lines(session, _frames.STREAM_STDOUT)
        self.stderr = Lines(session, _frames.STREAM_STDERR)
        self._new: Tuple[TextIO, TextIO] = (_Text(self.stdout, 1), _Text(self.stderr, 2))  # type: ignore[assignment]
        self._old: Optional[Tuple[TextIO, TextIO]] = None
        self._session = session
        #: The handler of `logging`; None until the program uses that module.
        self.records: Any = None
        self.unfinished = (self.stdout.partial, self.stderr.partial)

    def install(self) -> None:
        """From now on prints are frames."""
        old = (sys.stdout, sys.stderr)
        for stream in old:
            if stream is not None:
                stream.flush()
        self._old = old
        sys.stdout, sys.stderr = self._new
        self.catch_records()

    def catch_records(self) -> None:
        """Take the records of `logging` too, if the program has imported it: it costs a start 10 ms."""
        logging = sys.modules.get("logging")
        if logging is None or self.records is not None or self._old is None or not hasattr(logging, "root"):
            return
        self.records = _records(self._session)
        self._point_handlers(self._old, self._new)
        if not logging.getLogger().handlers:
            logging.getLogger().addHandler(self.records)

    def remove(self, send: bool = True) -> None:
        """Prints go to the descriptors again; send says whether unfinished lines are still sent."""
        if self._old is None:
            return
        if send:
            self.finish_all()
        old, self._old = self._old, None
        if sys.stdout is self._new[0]:
            sys.stdout = old[0]
        if sys.stderr is self._new[1]:
            sys.stderr = old[1]
        if self.records is None:
            return
        import logging

        self._point_handlers(self._new, old)
        root = logging.getLogger()
        if self.records in root.handlers:
            root.removeHandler(self.records)
            if not send:
                # A forked child goes on to log, in plain lines.
                root.addHandler(logging.StreamHandler())

    def finish(self, number: int) -> None:
        """Send the unfinished lines of task number."""
        self.stdout.finish(number)
        self.stderr.finish(number)

    def finish_all(self) -> None:
        """Send all unfinished lines."""
        self.stdout.finish_all()
        self.stderr.finish_all()

    @staticmethod
    def _point_handlers(before: Tuple[TextIO, TextIO], after: Tuple[TextIO, TextIO]) -> None:
        """Handlers that wrote to one of the streams before write to the one in its place."""
        import logging

        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler):
                for old, new in zip(before, after):
                    if old is not None and handler.stream is old:
                        handler.setStream(new)
