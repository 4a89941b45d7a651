"""The loop of a worker with async handlers: several tasks at the same time on one event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple, Union

from . import _frames
from ._errors import ended, outcome_of
from ._frames import ACK, CANCEL, DRAIN, FLUSH_AT, HEADER, HEADER_SIZE, PING, RETURNED, TASK, Invalid
from ._memory import FINISHED, RUNNING, STARTED
from ._registry import Entry
from ._session import Session, clock, current_number
from ._stream import stream, stream_async
from ._task import Task

_Future = Union["asyncio.Task[Any]", "asyncio.Future[Any]"]


class Job:
    """One task from its arrival to its answer."""

    __slots__ = ("number", "entry", "payload", "task", "bound", "limit", "place", "begun", "reason", "future", "view")

    def __init__(self, number: int, entry: Entry, payload: Any, task: Task, bound: int, limit: int) -> None:
        self.number = number
        self.entry = entry
        self.payload = payload
        self.task = task
        self.bound = bound
        self.limit = limit  # in microseconds; -1 none
        self.place = 0  # in the page's `running`
        self.begun = 0
        self.reason = 0  # of the CANCEL that came for it
        self.future: Optional[_Future] = None
        self.view: Optional[memoryview] = None  # what the handler sees of the arena


class Raised:
    """What a handler in a thread raised. As a value, for not every exception may stand in a future."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class AsyncLoop:
    """All of it runs in the event loop's thread."""

    def __init__(self, session: Session, concurrency: int) -> None:
        self._session = session
        self._concurrency = concurrency
        self._free: List[int] = list(range(concurrency - 1, -1, -1))
        self._waiting: Deque[Job] = deque()
        self._running: Dict[int, Job] = {}
        self._threads: Optional[ThreadPoolExecutor] = None
        self._held = 0
        self._flush_planned = False
        self._ending = False  # nothing more will be started than what waits
        self._draining = False
        self._over = False  # the session has ended; late answers are dropped
        session.find = self._pairs_of

    def _pairs_of(self, number: int) -> _frames.Pairs:
        """What came with a task that runs."""
        job = self._running.get(number)
        return job.task._pairs if job is not None else []

    async def main(self) -> None:
        """Serve until the host closes `in` or drains this worker; raise what else ends it."""
        self._loop = asyncio.get_running_loop()
        self._done: "asyncio.Future[None]" = self._loop.create_future()
        self._loop.call_soon(self._guarded, self._take)  # what came together with HELLO
        self._loop.add_reader(self._session.reader.fd, self._guarded, self._read)
        try:
            await self._done
        finally:
            self._over = True
            self._loop.remove_reader(self._session.reader.fd)
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step of this class; what it raises ends the session."""
        if self._over:
            return
        try:
            step()
        except Exception as error:  # noqa: BLE001 - not for asyncio to log and go on
            self._end(error)

    def _end(self, error: Optional[BaseException] = None) -> None:
        self._over = True
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)

    def _read(self) -> None:
        reader = self._session.reader
        if reader.fill():
            self._take()
            return
        self._loop.remove_reader(reader.fd)
        if reader.end > reader.start:
            raise Invalid("end of file in the middle of a frame")
        self._ending = True
        self._step()

    def _take(self) -> None:
        """Take every complete frame out of the buffer."""
        reader = self._session.reader
        while reader.end - reader.start >= HEADER_SIZE:
            length, kind, flags, code, number, aux = HEADER.unpack_from(reader.data, reader.start)
            at = reader.start + HEADER_SIZE
            if at + length > reader.end:
                _frames.check_header(kind, length)
                break
            if kind == TASK:
                self._arrive(flags, code, number, aux, at, at + length)
            else:
                _frames.check_control(kind, code, length)
                self._control(kind, flags, code, number, aux)
            reader.start = at + length
        self._step()

    def _arrive(self, flags: int, code: int, number: int, aux: int, at: int, stop: int) -> None:
        session = self._session
        if not number:
            raise Invalid("TASK has number 0")
        if not 0 < code <= len(session.entries):
            raise Invalid(f"TASK for handler {code}")
        entry = session.entries[code - 1]
        payload, task, bound = session.open(entry, flags, at, stop, number, aux, 0)
        if self._draining:
            self._send(_frames.frame(RETURNED, number))
            return
        if not flags & _frames.ARENA:
            payload = payload.tobytes()  # the buffer is used again before the handler runs
        limit = aux if flags & _frames.TIMEOUT else -1
        pairs = session.opened[1] if flags & _frames.META else []
        self._waiting.append(Job(number, entry, payload, task or Task(session, number, entry.name, pairs, None),
                                 bound, limit))

    def _control(self, kind: int, flags: int, code: int, number: int, aux: int) -> None:
        if kind == PING and not flags & ACK:
            self._send(_frames.frame(PING, flags=ACK, aux=aux))
        elif kind == CANCEL:
            self._cancel(number, code)
        elif kind == DRAIN:
            self._ending = self._draining = True
            while self._waiting:
                self._send(_frames.frame(RETURNED, self._waiting.popleft().number))

    def _cancel(self, number: int, reason: int) -> None:
        job = self._running.get(number) or next((j for j in self._waiting if j.number == number), None)
        if job is None or job.reason:
            return  # unknown, answered, or asked before
        job.reason = job.task._reason = reason
        if job.future is not None and job.entry.is_async:
            job.future.cancel()

    def _step(self) -> None:
        """Start what can be started; end when nothing is left."""
        while self._waiting and self._free and not self._over:
            self._begin(self._waiting.popleft())
        if self._ending and not self._running and not self._waiting and not self._over:
            self._flush()
            self._end()

    def _begin(self, job: Job) -> None:
        session, number = self._session, job.number
        memory = session.memory
        job.place = self._free.pop()
        if memory is not None:
            if self._concurrency > 1:
                memory.words[RUNNING + job.place] = number
            memory.words[STARTED] = number
            memory.fence()
            if memory.recalled(number):
                self._leave(job)
                self._send(_frames.frame(RETURNED, number))
                return
        else:
            # Without a page the host learns what ran from the answers.
            session.channel.pending.append(_frames.frame(_frames.STARTED, number))
            self._flush()
        self._running[number] = job
        job.begun = clock()
        if job.limit >= 0:
            job.task.deadline = (job.begun + job.limit * 1000) / 1e9
        try:
            job.future = self._start(job)
        except Exception as error:  # noqa: BLE001 - a decorator around the handler may raise at once
            self._answer(job, outcome_of(error))
            return
        if job.reason and job.entry.is_async:
            job.future.cancel()
        job.future.add_done_callback(partial(self._finish, job))

    def _start(self, job: Job) -> _Future:
        """Start the handler, in a context that knows the task's number."""
        payload = job.payload
        if type(payload) is memoryview:
            if job.entry.view:
                job.view = payload
            else:
                payload = payload.tobytes()
        elif job.entry.view:
            payload = memoryview(payload)
        job.payload = None
        arguments: Tuple[Any, ...] = (payload, job.task) if job.entry.wants_task else (payload,)
        call = job.entry.call
        if job.entry.streams:
            call = partial(stream_async if job.entry.is_async else stream, self._session, job.number, job.bound, call)
        token = current_number.set(job.number)
        try:
            if job.entry.is_async:
                return self._loop.create_task(call(*arguments))
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="bullpen")
            context = contextvars.copy_context()
            future = self._loop.run_in_executor(self._threads, context.run, _in_thread, call, arguments)
            self._session.threads += 1
            return future
        finally:
            current_number.reset(token)

    def _finish(self, job: Job, future: _Future) -> None:
        session = self._session
        session.stray()
        if not job.entry.is_async:
            session.threads -= 1
        error: Optional[BaseException]
        result: Any = None
        if future.cancelled():
            error = asyncio.CancelledError()
        else:
            error = future.exception()
            if error is None:
                result = future.result()
                if isinstance(result, Raised):
                    error = result.error
        if self._over:
            return
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            # The worker ends with this task as the one that did it: `running` keeps it.
            self._end(error if not job.entry.is_async else None)
            return
        if error is not None:
            asked = job.reason and isinstance(error, asyncio.CancelledError)
            result = outcome_of(ended(job.reason) if asked else error)
        self._guarded(partial(self._answer, job, result))

    def _answer(self, job: Job, result: Any) -> None:
        session = self._session
        self._leave(job)
        self._running.pop(job.number, None)
        micros = _frames.microseconds(clock() - job.begun)
        out, err = session.bridges.unfinished
        if out or err:
            session.bridges.finish(job.number)
        self._send(session.answer(job.number, micros, result, job.bound))
        job.task._answered = True
        if job.view is not None:
            try:
                job.view.release()
            except BufferError:
                pass  # the handler still holds something that was made of it
        self._step()

    def _leave(self, job: Job) -> None:
        """Say in the page that the task's handler does not run any more."""
        self._free.append(job.place)
        memory = self._session.memory
        if memory is None:
            return
        if self._concurrency > 1:
            memory.words[RUNNING + job.place] = 0
        else:
            memory.words[FINISHED] = job.number

    def _send(self, frame: bytes) -> None:
        """Hold frame until the end of this turn of the event loop."""
        self._session.channel.pending.append(frame)
        self._held += len(frame)
        if self._held >= FLUSH_AT:
            self._flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._guarded, self._flush)

    def _flush(self) -> None:
        self._held = 0
        self._flush_planned = False
        if self._session.channel.pending:
            self._session.channel.flush()


def _in_thread(call: Callable[..., Any], arguments: Tuple[Any, ...]) -> Any:
    try:
        return call(*arguments)
    except BaseException as error:  # noqa: BLE001 - told to the loop, which decides
        return Raised(error)


def serve(session: Session, concurrency: int) -> None:
    """Serve in a new event loop."""
    asyncio.run(AsyncLoop(session, concurrency).main())
