"""The task that a handler runs: its information, progress and log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Dict, Optional

from . import _frames

if TYPE_CHECKING:
    from ._session import Session

_OWN = "bullpen."


class Task:
    """The task that a handler runs. Its methods may be called from any thread."""

    __slots__ = ("number", "deadline", "_session", "_handler", "_pairs", "_meta", "_reason", "_answered")

    def __init__(self, session: "Session", number: int, handler: str,
                 pairs: _frames.Pairs, deadline: Optional[float]) -> None:
        #: Number of the task in this worker's life, as the host counts.
        self.number = number
        #: When the task's time is over, on the clock of `time.monotonic`; None without a limit.
        self.deadline = deadline
        self._session = session
        self._handler = handler
        self._pairs = pairs
        self._meta: Optional[Dict[str, str]] = None
        self._reason = 0
        self._answered = False

    @property
    def id(self) -> str:
        """The id that the caller, or the queue, gave to the task; empty without one."""
        return self._own("id")

    @property
    def name(self) -> str:
        """The name of the task; for the handler ``*`` the name that was submitted."""
        return self._own("name") or self._handler

    @property
    def parent(self) -> str:
        """The id of the task that submitted this one; empty without one."""
        return self._own("parent")

    @property
    def meta(self) -> Dict[str, str]:
        """Metadata from the caller, such as ``traceparent``. Bytes that are not UTF-8 are surrogate-escaped."""
        if self._meta is None:
            self._meta = {key: value.decode("utf-8", "surrogateescape")
                          for key, value in self._pairs if not key.startswith(_OWN)}
        return self._meta

    @property
    def traceparent(self) -> str:
        """The trace that this run belongs to, as the W3C Trace Context has it; empty for none."""
        return self.meta.get("traceparent", "")

    @property
    def canceled(self) -> bool:
        """Whether this task was asked to end. For handlers that run in threads, and for loops that check it."""
        return self._reason != 0 or self._session.asked_for(self.number)

    def remaining(self) -> Optional[float]:
        """Seconds until the deadline, not below 0; None without a limit."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.monotonic())

    def progress(self, fraction: float, note: str = "") -> None:
        """Report the progress of this task to the caller: 0.0 to 1.0, and a note. Costs one write."""
        if self._answered:
            return
        part = round(min(1.0, max(0.0, float(fraction))) * 1_000_000) if fraction == fraction else 0
        text = _frames.cut_utf8(note.encode("utf-8", "backslashreplace"), _frames.MAX_LOG)
        self._session.channel.send(_frames.frame(_frames.PROGRESS, self.number, text, aux=part))

    def log(self, message: object, level: int = _frames.INFO) -> None:
        """Write message to the task's log; level is one of those of `logging`, such as ``logging.INFO``. Costs one write."""
        self._session.log(str(message), level, 0 if self._answered else self.number)

    def _own(self, key: str) -> str:
        key = _OWN + key
        for found, value in reversed(self._pairs):
            if found == key:
                return value.decode("utf-8", "surrogateescape")
        return ""
