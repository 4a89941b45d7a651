"""One worker life: what the environment and HELLO said, and the state that all parts share."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextvars import ContextVar
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _frames, _memory
from ._channel import Channel, Reader, complain
from ._errors import Outcome, ended, qualified
from ._frames import Invalid
from ._memory import Memory
from ._output import Bridges, log_code, log_frame
from ._registry import Entry, Registry
from ._stream import as_bytes
from ._task import Task
from ._version import __version__

SDK = f"python/{__version__}"
VARIABLE = "BULLPEN_WORKER"

#: Number of the task that runs in this context; for workers with concurrent handlers.
current_number: "ContextVar[int]" = ContextVar("bullpen_task", default=0)

#: The session of this process, for what handlers call; None in a program that is no worker.
serving: "Optional[Session]" = None


class StartError(Exception):
    """This program cannot serve tasks; it says why and exits with status 2."""


class Descriptors(NamedTuple):
    """What BULLPEN_WORKER says."""

    input: int
    output: int
    memory: Optional[int]


def parse_variable(value: str) -> Descriptors:
    """Read BULLPEN_WORKER. Unknown parts are ignored."""
    version, *parts = value.split(",")
    if version != f"v{_frames.VERSION}":
        raise StartError(f"the host speaks version {version!r} of the worker protocol; this SDK "
                         f"({SDK}) knows v{_frames.VERSION}: install the version of bullpen that matches the host")
    found: Dict[str, int] = {}
    for part in parts:
        key, _, number = part.partition("=")
        if key in ("in", "out", "mem"):
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise StartError(f"{VARIABLE}={value}: {part!r} does not name a descriptor")
            found[key] = int(number)
    if "in" not in found or "out" not in found:
        raise StartError(f"{VARIABLE}={value}: in and out are required")
    return Descriptors(found["in"], found["out"], found.get("mem"))


def claim(descriptors: Descriptors) -> Descriptors:
    """Make the descriptors ours: not inherited, and none of the standard ones."""
    try:
        given, taken = descriptors.input, descriptors.output
        if os.name == "nt":
            import msvcrt
            for fd in (given, taken):
                msvcrt.setmode(fd, os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
        if given <= 2:
            given = os.dup(given)
        if taken <= 2:
            taken = os.dup(taken)
        if descriptors.input == 0:
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
        if descriptors.output == 1:
            os.dup2(2, 1)
        for fd in (given, taken):
            os.set_inheritable(fd, False)
            if os.name != "nt":
                os.set_blocking(fd, True)
    except OSError as error:
        raise StartError(f"a descriptor of {VARIABLE} cannot be used ({error.strerror}): "
                         "in and out must be open in the worker") from None
    return Descriptors(given, taken, descriptors.memory)


class Session:
    """Shared by the loops, the bridges and all tasks."""

    def __init__(self, descriptors: Descriptors, registry: Registry) -> None:
        self.entries: List[Entry] = list(registry.entries)
        self.reader = Reader(descriptors.input)
        self.channel = Channel(descriptors.output)
        self.memory: Optional[Memory] = None
        if descriptors.memory is not None and sys.byteorder == "little":
            try:
                self.memory = Memory(descriptors.memory)
            except OSError as error:
                raise StartError(f"the shared memory cannot be mapped: {error}") from None
        self.bridges = Bridges(self)
        self.output = 0  # bound of a result; 0 none
        self.max_frame = _frames.MAX_FRAME
        self.chunks = False  # whether the host accepts a result in pieces
        #: Bound of the result of the task that was opened last; with one handler at a time.
        self.bound = 0
        self.forked = False
        #: Number of the task that runs, 0 between tasks; with one handler at a time.
        self.current = 0
        self.concurrent = False
        #: Threads that run a handler now; they can hold up the end of the process.
        self.threads = 0
        #: The pairs of the last task that came with some, and its number; with one handler at a time.
        self.opened: Tuple[int, _frames.Pairs] = (0, [])
        #: Finds the pairs of a running task; with concurrent handlers.
        self.find: Optional[Callable[[int], _frames.Pairs]] = None
        self._asked = 0  # the last task that was interrupted: each one is only once

    def watch_forks(self) -> None:
        """Take the descriptors from children that handlers fork. It cannot be undone."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def running(self) -> int:
        """Number of the task that the caller belongs to; 0 for none."""
        return current_number.get() if self.concurrent else self.current

    def opened_here(self) -> _frames.Pairs:
        """The pairs that came with the task that the caller belongs to."""
        number = self.running()
        if self.find is not None:
            return self.find(number)
        opened, pairs = self.opened
        return pairs if number and opened == number else []

    def log(self, text: str, level: int, number: int) -> None:
        """Send text, one LOG frame for each line."""
        if self.forked:
            return
        code = log_code(level)
        lines = text.split("\n") if "\n" in text else [text]
        self.channel.send(b"".join([log_frame(_frames.STREAM_LOG, code, number, line) for line in lines]))

    def asked_for(self, number: int) -> bool:
        """Whether the page says that task number is to end."""
        return self.memory is not None and not self.forked and self.memory.words[_memory.ASKED] == number

    def greet(self, concurrency: int) -> bool:
        """Read the host's HELLO and answer it; False when the host left before."""
        reader = self.reader
        while True:
            have = reader.end - reader.start
            if have >= _frames.HEADER_SIZE:
                length, kind, _, code, _, _ = _frames.HEADER.unpack_from(reader.data, reader.start)
                if kind != _frames.HELLO:
                    _frames.check_header(kind, length)
                    raise Invalid(f"{_frames.KINDS[kind]} before HELLO")
                if code != _frames.VERSION:
                    raise Invalid(f"HELLO of version {code}; this side speaks {_frames.VERSION}")
                if have >= _frames.HEADER_SIZE + length:
                    break
            if not reader.fill():
                if have:
                    raise Invalid("end of file in the middle of a frame")
                return False
        at = reader.start + _frames.HEADER_SIZE
        reader.start = at + length
        self._read_hello(_frames.parse_all_pairs(reader.view, at, at + length))
        self.concurrent = concurrency > 0
        self.channel.pending.append(self._hello(max(1, concurrency)))
        self.channel.flush()
        return True

    def _read_hello(self, pairs: Dict[str, str]) -> None:
        for key in ("pid", "output", "max_frame"):
            if key in pairs:
                _frames.parse_number(key, pairs[key])
        self.output = int(pairs.get("output", "0"))
        if "max_frame" in pairs:
            self.max_frame = _frames.parse_number("max_frame", pairs["max_frame"], _frames.MAX_U32)
        self.chunks = "chunks" in pairs.get("caps", "").split()
        memory = self.memory
        if memory is not None and "arena.request" in pairs and "arena.reply" in pairs:
            memory.request = _memory.parse_part("arena.request", pairs["arena.request"], memory.size)
            memory.reply = _memory.parse_part("arena.reply", pairs["arena.reply"], memory.size)

    def _hello(self, concurrency: int) -> bytes:
        caps: List[str] = []
        if self.memory is not None:
            caps.append("page")
            if self.memory.reply is not None:
                caps.append("arena")
            if not self.concurrent and self._listen():
                caps.append(f"ask={int(signal.SIGURG)}")
        elif self.concurrent:
            caps.append("started")
        if self.chunks:
            caps.append("chunks")
        return _frames.frame(_frames.HELLO, body=_frames.encode_pairs((
            ("sdk", SDK),
            ("tasks", "\n".join(entry.name for entry in self.entries)),
            ("concurrency", str(concurrency)),
            ("caps", " ".join(caps)),
        )), code=_frames.VERSION)

    def _listen(self) -> bool:
        if not hasattr(signal, "SIGURG") or threading.current_thread() is not threading.main_thread():
            return False
        signal.signal(signal.SIGURG, self._on_ask)
        return True

    def _on_ask(self, signum: int, frame: Any) -> None:
        """The host sent SIGURG: write what is held, and end the handler if it is the one meant."""
        number, memory = self.current, self.memory
        if not number or memory is None or self.forked:
            return
        self.channel.flush_shielded()  # a second signal may come while it writes
        self.heed(number)

    def heed(self, number: int) -> None:
        """End the handler of task number if the host has asked for that, once. In the main thread."""
        memory = self.memory
        if memory is not None and memory.words[_memory.ASKED] == number and self._asked != number:
            self._asked = number
            self.channel.interrupt(ended(memory.words[_memory.REASON]))

    def open(self, entry: Entry, flags: int, at: int, stop: int, number: int,
             limit: int, now: int) -> Tuple[Any, Optional[Task], int]:
        """Payload, Task and bound of the result for the frame whose body is reader.data[at:stop]."""
        pairs: _frames.Pairs = []
        bound = self.output
        view = self.reader.view
        if flags & _frames.META:
            pairs, at = _frames.parse_pairs(view, at, stop)
            self.opened = (number, pairs)
            for key, value in pairs:
                if key == "bullpen.output":
                    bound = _frames.parse_number(key, value.decode("utf-8", "replace"))
        if flags & _frames.ARENA:
            if self.memory is None:
                raise Invalid("an arena reference; there is no shared memory")
            payload = self.memory.payload(view, at, stop)
        else:
            payload = view[at:stop]
        task = None
        if entry.wants_task:
            deadline = (now + limit * 1000) / 1e9 if flags & _frames.TIMEOUT else None
            task = Task(self, number, entry.name, pairs, deadline)
        self.bound = bound
        return payload, task, bound

    def answer(self, number: int, micros: int, result: Any, bound: int) -> bytes:
        """The frame that answers task number with what its handler returned, or with an Outcome."""
        try:
            if not isinstance(result, Outcome):
                result = as_bytes(result)
        except TypeError as error:
            result = Outcome(_frames.FAILED, "TypeError", str(error))
        except ValueError as error:  # str with surrogates, a released view
            result = Outcome(_frames.FAILED, qualified(type(error)), f"the result cannot be sent: {error}")
        if isinstance(result, Outcome):
            return result.frame(number, micros)
        if bound and len(result) > bound:
            return Outcome(_frames.OUTPUT, message=f"the result has {len(result)} bytes, more than {bound}"
                           ).frame(number, micros)
        if len(result) >= _frames.ARENA_MIN and self.memory is not None:
            with memoryview(result) as data:
                place = self.memory.place(data)
            if place is not None:
                return _frames.frame(_frames.RESULT, number, place, flags=_frames.ARENA, aux=micros)
        if len(result) > self.max_frame:
            return Outcome(_frames.OUTPUT, message=f"the result has {len(result)} bytes, but the host accepts frames of "
                           f"up to {self.max_frame}").frame(number, micros)
        return _frames.frame(_frames.RESULT, number, result, aux=micros)

    def stray(self) -> None:
        """Called where a loop goes on: a forked child must not. It ends here."""
        if self.forked:
            complain("a forked child returned from its handler; end it with os._exit")
            os._exit(1)

    def _after_fork(self) -> None:
        if self.forked:
            return
        self.forked = True
        self.bridges.remove(send=False)
        self.channel.forget()
        os.close(self.reader.fd)
        if self.memory is not None:
            self.memory.forget()
        if hasattr(signal, "SIGURG") and signal.getsignal(signal.SIGURG) == self._on_ask:
            signal.signal(signal.SIGURG, signal.SIG_DFL)


clock = time.monotonic_ns
