"""From the start of a worker to its exit status."""

from __future__ import annotations

import os
import signal
import struct
import sys
from typing import NoReturn, Optional

from . import _frames, _memory, _session
from ._channel import WriteError, complain, make_spare
from ._loop import Loop
from ._registry import Registry, registry
from ._session import VARIABLE, Session, StartError, claim, parse_variable

_PROTOCOL_BROKEN, _HOST_GONE, _CANNOT_START = 3, 1, 2


def run(concurrency: int = 64) -> NoReturn:
    """Serve the tasks of this program until the host ends the session, then exit.

    If any handler is ``async def``, up to *concurrency* tasks run at the same
    time (1 to 960) on one event loop; plain functions then run in as many
    threads. Without such a handler the tasks run one after another in the
    calling thread, which should be the main thread: only there can a running
    handler be asked to end.

    Exit status: 0 after the host closed the channel or drained the worker, 1 when
    the host cannot be written to, 2 when the program was not started by a host, 3
    when the host broke the protocol. A handler that raises SystemExit ends the
    worker with the status it names.
    """
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"concurrency must be a number from 1 to {_frames.MAX_CONCURRENCY}, not {concurrency!r}")
    value = os.environ.pop(VARIABLE, None)
    try:
        session = _open(value, registry)
        _session.serving = session
        session.watch_forks()
    except StartError as error:
        complain(str(error))
        sys.exit(_CANNOT_START)
    except _frames.Invalid as error:
        complain(f"protocol: {error}")
        sys.exit(_PROTOCOL_BROKEN)
    sys.exit(_serve(session, min(concurrency, _frames.MAX_CONCURRENCY)))


def _open(value: Optional[str], handlers: Registry) -> Session:
    if value is None:
        raise StartError(by_hand())
    descriptors = parse_variable(value)
    if not handlers.entries:
        raise StartError("this program has no tasks: put @bullpen.task above a function, before bullpen.run()")
    return Session(claim(descriptors), handlers)


def rehearse(times: int = 12) -> None:
    """Live *times* short sessions with nobody, in a process that is about to fork workers.

    What Python learns about code when it runs it, it writes beside the code and
    into caches. Learned here it is in memory that all workers share; learned by
    each of them it would be a hundred pages that each has to copy. Twelve times
    are enough for 3.11, which waits longest. It needs memfd_create.
    """
    handlers = Registry()
    handlers.add(lambda payload: b"", "rehearsal")
    half = 2 * _memory.PAGE_SIZE
    script = _frames.frame(_frames.HELLO, code=_frames.VERSION, body=_frames.encode_pairs((
        ("pid", "1"), ("output", "1"), ("max_frame", str(_frames.MAX_FRAME)),
        ("arena.request", f"{half} {half}"), ("arena.reply", f"{2 * half} {half}"))))
    before = signal.getsignal(signal.SIGURG)
    try:
        for _ in range(times):
            _live(handlers, script + _frames.frame(_frames.TASK, 1, code=1), 3 * half)
    finally:
        if before is not None:  # else it is not Python's
            signal.signal(signal.SIGURG, before)
        make_spare()


def _live(handlers: Registry, script: bytes, size: int) -> None:
    memory = os.memfd_create("rehearsal")
    os.truncate(memory, size)
    os.pwrite(memory, struct.pack("=I", _memory.MAGIC), 0)
    pipes = os.pipe(), os.pipe()
    os.write(pipes[0][1], script)
    os.close(pipes[0][1])
    os.environ[VARIABLE] = f"v{_frames.VERSION},in={pipes[0][0]},out={pipes[1][1]},mem={memory}"
    _serve(_open(os.environ.pop(VARIABLE, None), handlers), 1)
    for fd in (pipes[0][0], *pipes[1]):
        os.close(fd)


def by_hand() -> str:
    """What to say to somebody who started a worker without a host."""
    names = [entry.name for entry in registry.entries if entry.name != "*"]
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == "bullpen.__main__":
        program = "python3 -m bullpen " + " ".join(sys.argv[1:])
    else:
        program = f"python3 {sys.argv[0] or 'PROGRAM'}"
    return ("this program is a worker and waits for tasks from a host. Start it with\n"
            f"    bullpen map --protocol frames --task {names[0] if names else 'NAME'} -- {program}")


def _serve(session: Session, concurrency: int) -> int:
    """Run the session to its end. Whatever ends it, answers that are held are written."""
    is_async = any(entry.is_async for entry in session.entries)
    status = 0
    try:
        try:
            if session.greet(concurrency if is_async else 0):
                session.bridges.install()
                _loop(session, concurrency, is_async)
        except _frames.Invalid as error:
            _finish(session)
            complain(f"protocol: {error}; this worker ends")
            status = _PROTOCOL_BROKEN
        except WriteError:
            raise
        except BaseException as error:
            if not session.forked:
                _finish(session)
            elif not isinstance(error, SystemExit):
                session.stray()
            if session.threads and not session.forked and isinstance(error, SystemExit):
                _leave_threads(error.code)
            raise
        else:
            _finish(session)
    except WriteError as error:
        session.bridges.remove()
        complain(str(error))
        status = _HOST_GONE
    if session.threads:
        _leave_threads(status)
    return status


def _leave_threads(code: object) -> NoReturn:
    """End although handlers run in threads: they cannot be ended, and Python would wait for them."""
    if code is not None and not isinstance(code, int):
        complain(str(code))
        code = 1
    os._exit((code or 0) & 0xFF)


def _loop(session: Session, concurrency: int, is_async: bool) -> None:
    if is_async:
        from ._aloop import serve  # asyncio costs 20 ms of start; most workers do without

        serve(session, concurrency)
    else:
        Loop(session).serve()


def _finish(session: Session) -> None:
    session.bridges.remove()
    session.channel.flush()
