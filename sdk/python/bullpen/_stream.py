"""Results in pieces: what handlers with ``yield`` give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List

from . import _frames
from ._errors import Outcome, TaskEnded, qualified

if TYPE_CHECKING:
    from ._session import Session


def as_bytes(value: Any) -> _frames.Buffer:
    """What a handler gave, as bytes; TypeError or ValueError where it is nothing that can be sent."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if value is None:
        return b""
    if isinstance(value, memoryview):
        return value.cast("B") if value.c_contiguous and value.nbytes else value.tobytes()
    if isinstance(value, (bytes, bytearray)):
        return value
    raise TypeError(f"a task must return or yield bytes, bytearray, memoryview, str or None, not {qualified(type(value))}")


class Pieces:
    """The pieces of one task's result, on their way to the host."""

    def __init__(self, session: "Session", number: int, bound: int) -> None:
        self._session = session
        self._number = number
        self._bound = bound
        self._size = 0
        self._held: List[_frames.Buffer] = []  # for a host that accepts no pieces

    def fits(self, piece: Any) -> bool:
        """Send a piece; False if the result is too large with it."""
        data = as_bytes(piece)
        self._size += len(data)
        if self._bound and self._size > self._bound:
            return False
        session = self._session
        if not session.chunks:
            self._held.append(bytes(data))
            return True
        most = min(_frames.MAX_CHUNK, max(session.max_frame, 1))
        for at in range(0, len(data), most):
            session.channel.send(_frames.frame(_frames.CHUNK, self._number, data[at:at + most]))
        return True

    def rest(self, last: Any) -> Any:
        """The result that completes the pieces."""
        if self._size == 0:
            return last
        data = as_bytes(last)
        self._size += len(data)
        if self._bound and self._size > self._bound:
            return self.too_large()
        return b"".join([*self._held, data]) if self._held else data

    def too_large(self) -> Outcome:
        """The outcome of a result that is too large."""
        return Outcome(_frames.OUTPUT, message=f"the result has {self._size} bytes or more, more than {self._bound}")


def stream(session: "Session", number: int, bound: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Run a handler that is a generator, and return the rest of its result."""
    out = Pieces(session, number, bound)
    pieces = call(*arguments)
    try:
        piece = next(pieces)
        while True:
            try:
                fits = out.fits(piece)
            except TaskEnded as error:  # while the piece was written; the handler may clean up
                piece = pieces.throw(error)
                continue
            if not fits:
                return out.too_large()
            piece = next(pieces)
    except StopIteration as end:
        return out.rest(end.value)
    finally:
        pieces.close()


async def stream_async(session: "Session", number: int, bound: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Run a handler that is an async generator, and return the rest of its result."""
    out = Pieces(session, number, bound)
    pieces = call(*arguments)
    try:
        async for piece in pieces:
            if not out.fits(piece):
                return out.too_large()
        return out.rest(None)
    finally:
        await pieces.aclose()
