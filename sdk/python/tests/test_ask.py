"""A running handler is asked to end: SIGURG and the page."""

from __future__ import annotations

import signal
from typing import Any

from host import ERROR, LOG, PROGRESS, RESULT

MEM = 1 << 20
TIMEOUT, CANCELED = 3, 4

HANDLERS = """
import os, time
@bullpen.task
def echo(data): return data
@bullpen.task
def wait(data, task):
    task.progress(0)
    time.sleep(60)
@bullpen.task
def spin(data, task):
    try:
        task.progress(0)
        while True:
            try:
                int("1")
            except Exception:
                return "swallowed"
    finally:
        print("cleaned")
@bullpen.task
def saves(data, task):
    try:
        task.progress(0)
        time.sleep(60)
    except bullpen.TaskEnded as error:
        return type(error).__name__ + " " + str(task.canceled)
@bullpen.task
def prints(data):
    while True:
        print("line")
"""
ECHO, WAIT, SPIN, SAVES, PRINTS = range(1, 6)


def test_timeout_and_cancel(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    for code in (WAIT, SPIN):
        for reason, kind in ((TIMEOUT, "bullpen.TaskTimeout"), (CANCELED, "bullpen.TaskCanceled")):
            number = host.task(code)
            host.expect(PROGRESS, number)
            host.ask(number, reason)
            got = host.expect(ERROR, number, skip=(LOG,))
            assert (got.code, got.pairs["type"]) == (reason, kind)
            assert "in wait" in got.pairs["stack"] or "in spin" in got.pairs["stack"]
    host.task(ECHO, b"lives")
    assert host.result() == b"lives"
    assert host.end() == (0, "", "")


def test_handler_that_catches_it_answers(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    number = host.task(SAVES)
    host.expect(PROGRESS)
    host.ask(number, TIMEOUT)
    assert host.result(number) == b"TaskTimeout True"


def test_signal_for_another_task_does_no_harm(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    number = host.task(ECHO, b"a")
    host.result()
    host.ask(number, CANCELED)  # late: it is answered
    number = host.task(SAVES)
    host.expect(PROGRESS)
    host.ask(number + 1, CANCELED)  # not yet
    host.ask(number, CANCELED)
    assert host.result(number) == b"TaskCanceled True"
    host.task(ECHO, b"b")
    assert host.result() == b"b"


def test_asked_before_it_begins(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    for reason, kind in ((TIMEOUT, "bullpen.TaskTimeout"), (CANCELED, "bullpen.TaskCanceled")):
        number = host.number + 1
        host.ask(number, reason)  # the signal finds no task
        assert host.task(WAIT) == number
        got = host.expect(ERROR, number, skip=(PROGRESS,))
        assert (got.code, got.pairs["type"]) == (reason, kind)
    host.task(ECHO, b"lives")
    assert host.result() == b"lives"
    assert host.end() == (0, "", "")


def test_signal_writes_held_answers(start: Any) -> None:
    host = start(HANDLERS.replace("    task.progress(0)\n    time.sleep(60)", "    time.sleep(60)", 1), mem=MEM)
    first = host.next_task(ECHO, b"held")
    second = host.next_task(WAIT)
    host.send(first + second)
    while host.words[16] != 2:
        host.process.poll()
    assert host.buffer == b""
    host.process.send_signal(signal.SIGURG)  # asked is 0: only the writing
    assert host.result(1) == b"held"
    host.ask(2, CANCELED)
    assert host.expect(ERROR, 2).code == CANCELED


def test_ask_while_it_prints_cuts_no_frame(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    for _ in range(30):
        number = host.task(PRINTS)
        host.expect(LOG, number)
        host.ask(number, TIMEOUT)
        got = host.expect(ERROR, number, skip=(LOG,))
        assert got.code == TIMEOUT
    host.task(ECHO, b"lives")
    assert host.result() == b"lives"


def test_storm_of_signals_at_the_edges_of_handlers(start: Any) -> None:
    """Signals at any moment: each task has one answer, in order, and the worker lives."""
    host = start(HANDLERS, mem=MEM)
    for _ in range(60):
        batch = [host.next_task(ECHO, b"%d" % i) for i in range(64)]
        first = host.number - 63
        host.send(b"".join(batch))
        for want in range(first, host.number + 1):
            running = host.words[16]
            if want % 3 == 0:
                host.ask(max(running, first), TIMEOUT if want % 2 else CANCELED)
            got = host.read()
            assert got is not None, host.errors()
            assert got.id == want and got.kind in (RESULT, ERROR)
            if got.kind == ERROR:
                assert got.code in (TIMEOUT, CANCELED)
    assert host.end() == (0, "", "")


def test_ask_inside_of_the_barrier(start: Any) -> None:
    host = start("""
        import os, signal, threading
        import bullpen._memory as memory
        class Lock:
            def __init__(self):
                self.real = threading.Lock()
                self.release, self.locked = self.real.release, self.real.locked
            def acquire(self):
                self.real.acquire()
                os.kill(os.getpid(), signal.SIGURG)
        memory.threading = type("fake", (), {"Lock": Lock})
        @bullpen.task
        def echo(data): return data
        """, mem=MEM)
    host.words[34], host.words[33] = CANCELED, 2
    host.send(b"".join(host.next_task(1, b"%d" % i) for i in (1, 2, 3)))
    assert host.result(1) == b"1"
    assert host.expect(ERROR, 2).code == CANCELED
    assert host.result(3) == b"3"


def test_limit_is_announced(start: Any) -> None:
    host = start("""
        @bullpen.task
        def limit(data, task):
            left = task.remaining()
            return "none" if left is None else str(0.0 <= left <= 1.5 and task.deadline > 0)
        """, mem=MEM)
    host.task(1, flags=4, aux=1500000)
    assert host.result() == b"True"
    host.task(1, aux=1500000)
    assert host.result() == b"none"
