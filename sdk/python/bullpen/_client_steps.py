"""The steps that the calls of a client are made of, and how a request is tried again."""

from __future__ import annotations

import random
import time
from typing import Any, Callable, Generator, NamedTuple, Optional, Tuple, TypeVar, Union

from . import _client_answers as answers
from . import _client_errors as errors
from ._client_answers import Event
from ._http import Answer, Request

T = TypeVar("T")

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 5.0


class Broken(Exception):
    """There is no complete answer. `sent` means that the server may have got the request."""

    def __init__(self, message: str, sent: bool, partial: Optional[Answer] = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.partial = partial  # the answer, as far as it came


class Exchange(NamedTuple):
    """Send a request, take its answer, within so many seconds. The step's value is the Answer; it raises Broken."""

    request: Request
    within: Optional[float]


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Open(NamedTuple):
    """Send a request; the value is its answer, with the body only where the status is not 200."""

    request: Request
    within: float


class Read(NamedTuple):
    """Read on in the answer that was opened; the value is bytes, none at its end."""

    within: float


class Emit(NamedTuple):
    """Hand an event, or a piece of a result, to the caller."""

    event: Union[Event, bytes]


Call = Generator[Union[Exchange, Pause], Any, T]
Stream = Generator[Union[Exchange, Open, Read, Emit, Pause], Any, None]


class Timer:
    """A deadline; without a limit it never passes."""

    def __init__(self, seconds: Optional[float]) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    def left(self, most: float = float("inf")) -> float:
        """Seconds left, up to most."""
        return most if self._until is None else max(0.0, min(most, self._until - time.monotonic()))

    def within(self, more: float = 0.0) -> Optional[float]:
        """Seconds left and some more; None without a limit."""
        return None if self._until is None else max(0.0, self._until - time.monotonic()) + more


class Backoff:
    """The time before the next try: doubling, with jitter."""

    def __init__(self) -> None:
        self._next = _FIRST_DELAY

    def delay(self, asked: float = 0.0) -> float:
        """Seconds to wait; at least those asked for."""
        own, self._next = self._next, min(_LONGEST_DELAY, self._next * 2)
        return max(asked, own / 2) + random.random() * own / 2


def unconfirmed(why: str) -> errors.ClientError:
    """The error of a submit whose answer is missing."""
    return errors.Unconfirmed(f"{why}. The request may have been accepted or not. A submit with a key can be "
                              "repeated safely")


def lost(why: str) -> errors.ClientError:
    """The error of an ephemeral task whose answer is missing."""
    error = errors.Lost(f"{why}. The task may have run; its outcome is unknown")
    error.message = why
    return error


Unsure = Callable[[str], errors.ClientError]


class Caller:
    """Sends requests until they are answered. The address is only told in errors."""

    def __init__(self, address: str, timeout: Optional[float]) -> None:
        self.address = address
        self.timeout = timeout
        self.met = False  # the server has answered once: it is there, and may be about to start again

    def unreachable(self, why: str) -> errors.Unreachable:
        """The error where there is no connection."""
        return errors.Unreachable(f"no server answers at {self.address}: {why}. Start one with: bullpen serve")

    def retry_after(self, answer: Answer, repeatable: bool) -> Tuple[Optional[float], bool]:
        """Seconds until a retry may help, None for never; and whether the request may have been accepted."""
        if answer.status not in (429, 502, 503, 504):
            return None, False
        cause = answers.problem_of(answer).get("cause")
        if cause == "unconfirmed":
            return (answers.retry_after(answer) if repeatable else None), False  # it tells the job's id
        if cause == "start-failed":
            return None, False  # it seldom helps to wait, and the reason is wanted
        if cause is None and answer.status != 429:  # from something between
            return (answers.retry_after(answer) if repeatable else None), True
        return answers.retry_after(answer), False

    def exchange(self, request: Request, repeatable: bool, wait: Optional[float] = 0.0, timeout: Optional[float] = None,
                 unsure: Unsure = unconfirmed, step: Callable[[Request, Optional[float]], Any] = Exchange) -> Call[Answer]:
        """Send request until there is an answer that no other try would better.

        A request that may have been taken is only sent again where it is repeatable. A
        server that has answered before may be starting again, and is waited for.
        wait is how long the server may hold the answer back; None is for ever. step sends it.
        """
        timer, backoff, taken = Timer(self.timeout if timeout is None else timeout), Backoff(), False
        while True:
            answer: Optional[Answer] = None
            try:
                answer = yield step(request, None if wait is None else timer.within(wait))
            except Broken as broken:
                if not broken.sent and not self.met:
                    raise self.unreachable(str(broken)) from None
                why, after = f"the connection to {self.address} broke: {broken}", 0.0
                may_be_taken, again = broken.sent, repeatable or not broken.sent
            else:
                self.met = True
                wanted, may_be_taken = self.retry_after(answer, repeatable)
                if wanted is None and not may_be_taken:
                    return answer
                why = f"{self.address} answers with status {answer.status}, but is not a Bullpen server"
                after, again = wanted or 0.0, wanted is not None
            taken = taken or may_be_taken and request.method != "GET"
            delay = backoff.delay(after)
            if not again or timer.left() <= delay:
                if taken:
                    raise unsure(why)
                if answer is not None:
                    return answer
                raise self.unreachable(why)
            yield Pause(delay)

    def ok(self, request: Request, repeatable: bool, wait: float = 0.0) -> Call[Answer]:
        """As exchange, for answers that must be good."""
        answer = yield from self.exchange(request, repeatable, wait)
        if answer.status >= 300:
            raise answers.error_of(answer)
        return answer
