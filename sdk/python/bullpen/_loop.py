"""The loop of a worker that runs one task at a time."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple

from . import _frames
from ._errors import Outcome, TaskEnded, outcome_of
from ._frames import ACK, ARENA, ARENA_MIN, DRAIN, FLUSH_AT, HEADER, MAX_U32, META, PING, RESULT, RETURNED, TASK, Invalid
from ._memory import ASKED, FINISHED, NEEDS_SECOND_FENCE, RECALL, STARTED
from ._registry import Entry
from ._session import Session, clock
from ._stream import stream
from ._task import Task


class Loop:
    """Reads, runs every complete frame, writes all answers with one write."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By handler number: the function, and the entry where a task needs more than a call with its bytes.
        self._table: Dict[int, Tuple[Any, Optional[Entry]]] = {}
        for number, entry in enumerate(session.entries, 1):
            special = entry if entry.wants_task or entry.view or entry.streams else None
            self._table[number] = (partial(self._stream, entry.call) if entry.streams else entry.call, special)
        self._draining = False

    def serve(self) -> None:
        """Serve until the host closes `in` or drains this worker; raise what else ends it."""
        session = self._session
        reader, channel = session.reader, session.channel
        bridges = session.bridges
        while True:
            if bridges.records is None:
                bridges.catch_records()  # a handler may have imported logging
            self._run_batch()
            if channel.pending:
                channel.flush()
            session.stray()
            if self._draining:
                return
            if not reader.fill():
                if reader.end > reader.start:
                    raise Invalid("end of file in the middle of a frame")
                return

    def _run_batch(self) -> None:
        """Run every complete frame of the buffer. The one hot function: names are local, calls are few."""
        session, table = self._session, self._table
        reader, channel, bridges = session.reader, session.channel, session.bridges
        data, view, pos, end = reader.data, reader.view, reader.start, reader.end
        unpack, pack, append = HEADER.unpack_from, HEADER.pack, channel.pending.append
        memory = session.memory
        words: Any = memory.words if memory else None
        acquire: Any = memory.lock.acquire if memory else None
        release: Any = memory.lock.release if memory else None
        bound, small = session.output, min(ARENA_MIN - 1, session.output or ARENA_MIN, session.max_frame)
        out, err = bridges.unfinished
        held = 0
        begun = clock()
        while end - pos >= 16:
            length, kind, flags, code, number, aux = unpack(data, pos)
            at = pos + 16
            stop = at + length
            if stop > end:
                break
            pos = stop
            if kind != TASK:
                self._control(kind, flags, code, length, aux)
                continue
            row = table.get(code)
            if row is None or not number:
                raise Invalid(f"TASK for handler {code}" if number else "TASK has number 0")
            call, special = row
            task: Optional[Task] = None
            if special is None and not flags & (META | ARENA):
                payload: Any = view[at:stop].tobytes()
                limit, fits = bound, small
            else:
                entry = session.entries[code - 1]
                payload, task, limit = session.open(entry, flags, at, stop, number, aux, begun)
                fits = small if limit == bound else -1
                if not entry.view:
                    payload = payload.tobytes()
            if self._draining:
                append(pack(0, RETURNED, 0, 0, number, 0))
                continue
            result: Any
            try:
                try:
                    # `current` first: when the host sees `started`, an ask finds its task.
                    session.current = number
                    if acquire is not None:
                        words[STARTED] = number
                        acquire()
                        release()
                        if NEEDS_SECOND_FENCE:
                            acquire()
                            release()
                        if words[RECALL] and memory.recalled(number):  # type: ignore[union-attr]
                            session.current = 0
                            words[FINISHED] = number
                            append(pack(0, RETURNED, 0, 0, number, 0))
                            continue
                        if words[ASKED] == number:
                            session.heed(number)  # the signal may have come before, and found no task
                    result = call(payload) if task is None else call(payload, task)
                    session.current = 0
                except BaseException as error:
                    session.current = 0
                    result = self._failure(error)
            except TaskEnded as error:  # it came while another exception was on its way
                session.current = 0
                result = self._failure(error)
            if acquire is not None:
                words[FINISHED] = number
            now = clock()
            micros = (now - begun + 999) // 1000
            begun = now
            if micros > MAX_U32:
                micros = MAX_U32
            if out or err:
                bridges.finish(number)
            if result is None:
                result = b""
            if type(result) is bytes and len(result) <= fits:
                frame = pack(len(result), RESULT, 0, 0, number, micros) + result
            else:
                frame = session.answer(number, micros, result, limit)
            append(frame)
            if special is not None:
                _end(task, payload)
            result = payload = None
            held += len(frame)
            if held >= FLUSH_AT or acquire is None:
                channel.flush()
                session.stray()
                held = 0
                begun = clock()
        reader.start = pos

    def _stream(self, call: Callable[..., Any], *arguments: Any) -> Any:
        session = self._session
        return stream(session, session.current, session.bound, call, *arguments)

    def _control(self, kind: int, flags: int, code: int, length: int, aux: int) -> None:
        """Everything that is not a TASK. A CANCEL comes too late here: its task is answered, or unknown."""
        _frames.check_control(kind, code, length)
        if kind == PING and not flags & ACK:
            self._session.channel.pending.append(_frames.frame(PING, flags=ACK, aux=aux))
        elif kind == DRAIN:
            self._draining = True

    def _failure(self, error: BaseException) -> Outcome:
        self._session.channel.settle()
        memory = self._session.memory
        if memory is not None and memory.lock.locked():
            memory.lock.release()  # the ask came inside of the barrier
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise error
        return outcome_of(error)


def _end(task: Optional[Task], payload: Any) -> None:
    """The handler's view of the task ends with its answer."""
    if task is not None:
        task._answered = True
    if type(payload) is memoryview:
        try:
            payload.release()
        except BufferError:
            pass  # the handler still holds something that was made of it
