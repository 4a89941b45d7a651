"""The exceptions that a handler raises, and those that are raised in it."""

from __future__ import annotations

from typing import NamedTuple

from . import _frames

MAX_STACK = 16 << 10
MAX_MESSAGE = 16 << 10


class Failed(Exception):
    """Raised by a handler to fail its task.

    ``raise Failed("no such user", retry=False)`` ends the task as *failed*;
    ``retry=False`` means that a retry would not help.
    """

    __module__ = "bullpen"

    def __init__(self, message: object = "", retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


class TaskEnded(BaseException):
    """Raised in a handler that must end now: `TaskTimeout` or `TaskCanceled`.

    It is not an `Exception`, so ``except Exception`` does not catch it.
    A handler may catch it to clean up, and should then raise it again; one that
    returns instead ends its task with that result.
    """

    __module__ = "bullpen"


class TaskTimeout(TaskEnded):
    """The task ran longer than its timeout."""

    __module__ = "bullpen"


class TaskCanceled(TaskEnded):
    """The caller, or a shutdown, canceled the task."""

    __module__ = "bullpen"


def ended(reason: int) -> TaskEnded:
    """The exception for a reason of CANCEL."""
    if reason == _frames.TIMED_OUT:
        return TaskTimeout("the task's time is over")
    return TaskCanceled("the task was canceled")


class Outcome(NamedTuple):
    """How a task ended without a result."""

    code: int
    type: str = ""
    message: str = ""
    stack: str = ""
    final: bool = False

    def frame(self, number: int, micros: int) -> bytes:
        """The ERROR frame of task number."""
        pairs = [(key, value) for key, value in
                 (("type", self.type), ("message", self.message), ("stack", self.stack)) if value]
        flags = _frames.FINAL if self.final else 0
        return _frames.frame(_frames.ERROR, number, _frames.encode_pairs(pairs), self.code, flags, micros)


def qualified(kind: type) -> str:
    """The name of a class as its users write it."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a handler that raised error."""
    if isinstance(error, Failed):
        return Outcome(_frames.FAILED, qualified(type(error)), _message(error), final=not error.retry)
    if isinstance(error, TaskTimeout):
        code = _frames.TIMED_OUT
    elif isinstance(error, TaskCanceled):
        code = _frames.CANCELED
    elif isinstance(error, Exception):
        code = _frames.FAILED
    else:
        code = _frames.PANIC  # nothing that catches Exception would have caught it
    return Outcome(code, qualified(type(error)), _message(error), _stack(error))


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not cost the answer
        text = "(its message cannot be formatted)"
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "..."


def _stack(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    if trace.tb_next is not None:
        trace = trace.tb_next  # the first entry is the loop of this package
    import traceback  # 10 ms of start, which most workers never need

    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except Exception:  # noqa: BLE001
        return ""
    # The end tells most: it has the place and the message.
    return text if len(text) <= MAX_STACK else "...\n" + text[-MAX_STACK:]
