"""Workers with async handlers."""

from __future__ import annotations

from typing import Any

import pytest
from host import CANCEL, DRAIN, ERROR, LOG, PING, PROGRESS, RESULT, RETURNED, STARTED, TIMEOUT, frame
from test_page import MEM

HANDLERS = """
import asyncio, os, threading, time
OPTIONS = {"concurrency": 4}
gates = {}
def gate(data): return gates.setdefault(bytes(data), asyncio.Event())
@bullpen.task
async def wait(data, task):
    task.progress(0)
    await gate(data).wait()
    return data
@bullpen.task
async def open_gate(data):
    gate(data).set()
@bullpen.task
async def talk(data, task):
    for i in range(5):
        print("task", data.decode(), i)
        await asyncio.sleep(0)
    print("rest", data.decode(), end="")
    return task.name
@bullpen.task
def thread(data, task):
    print("in thread")
    while not task.canceled and data == b"wait":
        time.sleep(0.001)
    return str(threading.current_thread() is threading.main_thread())
@bullpen.task
async def bad(data):
    raise {b"v": ValueError("no"), b"s": StopAsyncIteration(), b"e": SystemExit(9),
           b"f": bullpen.Failed("no", retry=False), b"t": bullpen.TaskTimeout()}[data]
@bullpen.task
def bad_thread(data):
    raise {b"v": ValueError("no"), b"s": StopIteration(), b"e": SystemExit(9)}[data]
@bullpen.task
async def saves(data, task):
    try:
        task.progress(0)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "saved"
@bullpen.task(view=True)
async def view(data):
    await asyncio.sleep(0)
    return data
@bullpen.task
async def left(data, task):
    return "none" if task.remaining() is None else str(0 <= task.remaining() <= 1.5)
"""
WAIT, OPEN, TALK, THREAD, BAD, BAD_THREAD, SAVES, VIEW, LEFT = range(1, 10)
RUNNING = 64


def cancel(number: int, reason: int = 4) -> bytes:
    return frame(CANCEL, number, code=reason)


@pytest.mark.parametrize("mem", [0, MEM])
def test_concurrency(start: Any, mem: int) -> None:
    host = start(HANDLERS, mem=mem)
    assert host.hello["concurrency"] == "4"
    assert host.hello["caps"] == ("page arena" if mem else "started")
    for i in range(3):
        host.task(WAIT, b"%d" % i)
        host.expect(PROGRESS, skip=(STARTED,))
    if mem:
        assert sorted(host.words[RUNNING:RUNNING + 5]) == [0, 0, 1, 2, 3]
        assert host.words[16] == 3
    for i, want in ((1, 2), (0, 1), (2, 3)):
        number = host.task(OPEN, b"%d" % i)
        answers = {host.expect(RESULT, skip=(STARTED,)).id for _ in range(2)}
        assert answers == {number, want}
    if mem:
        assert set(host.words[RUNNING:RUNNING + 960]) == {0}
    assert host.end() == (0, "", "")


def test_no_more_than_announced_at_once(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.send(b"".join(host.next_task(WAIT, b"%d" % i) for i in range(6)))
    for want in (1, 2, 3, 4):
        host.expect(PROGRESS, want)
    host.send(frame(PING, aux=5))
    assert host.expect(PING).aux == 5  # the loop reads while handlers run
    assert host.words[16] == 4
    host.send(cancel(2))
    assert host.expect(ERROR, 2).code == 4
    host.expect(PROGRESS, 5)
    host.send(cancel(6, 3))  # it waits: it is started and ended at once
    host.send(cancel(1))
    got = [host.expect(ERROR) for _ in range(2)]
    assert [(g.id, g.code) for g in got] == [(1, 4), (6, 3)]
    assert got[1].pairs["type"] == "bullpen.TaskTimeout"
    host.send(b"".join(cancel(n) for n in (3, 4, 5, 77)))
    assert {host.expect(ERROR).id for _ in range(3)} == {3, 4, 5}
    assert host.end() == (0, "", "")


def test_recall_and_drain(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.words[32] = 2
    host.send(host.next_task(WAIT, b"a") + host.next_task(WAIT, b"b") + host.next_task(WAIT, b"c"))
    got = [host.read() for _ in range(3)]
    assert sorted((g.kind, g.id) for g in got) == [(RETURNED, 2), (RETURNED, 3), (PROGRESS, 1)]
    host.words[32] = 0
    host.send(b"".join(host.next_task(WAIT, b"%d" % i) for i in range(5)))
    for want in (4, 5, 6):
        host.expect(PROGRESS, want)
    host.send(frame(DRAIN))
    host.expect(RETURNED, 7)
    host.expect(RETURNED, 8)
    host.send(host.next_task(WAIT))
    host.expect(RETURNED, 9)
    host.send(b"".join(cancel(n) for n in (1, 4, 5, 6)))
    assert {host.expect(ERROR).id for _ in range(4)} == {1, 4, 5, 6}
    assert host.read() is None
    assert host.process.wait(20) == 0


def test_prints_of_tasks_that_run_together(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.send(b"".join(host.next_task(TALK, b"%d" % i) for i in range(1, 5)))
    lines, answers = [], 0
    while answers < 4:
        got = host.read()
        if got.kind == LOG:
            assert got.body.split()[1] == b"%d" % got.id
            lines.append(got.body)
        else:
            assert got.body == b"talk"
            answers += 1
    assert len(lines) == 24


def test_plain_functions_run_in_threads(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    first = host.task(THREAD, b"wait")
    assert host.expect(LOG, first).body == b"in thread"
    host.task(OPEN, b"x")
    host.expect(RESULT, 2)
    host.send(cancel(first))
    assert host.result(first) == b"False"


@pytest.mark.parametrize("code", [BAD, BAD_THREAD])
def test_errors(start: Any, code: int) -> None:
    host = start(HANDLERS, mem=MEM)
    host.task(code, b"v")
    got = host.expect(ERROR)
    assert (got.code, got.pairs["type"], got.pairs["message"]) == (1, "ValueError", "no")
    assert "in bad" in got.pairs["stack"]
    host.task(code, b"s")
    assert host.expect(ERROR).code == 1
    if code == BAD:
        host.task(BAD, b"f")
        assert host.expect(ERROR).flags == 16
        host.task(BAD, b"t")
        assert host.expect(ERROR).code == 3
    host.task(WAIT, b"x")
    waiting = host.number
    host.expect(PROGRESS)
    number = host.task(code, b"e")
    assert host.read() is None
    assert host.end()[0] == 9
    assert {waiting, number} <= set(host.words[RUNNING:RUNNING + 4])


def test_exit_does_not_wait_for_threads(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.task(THREAD, b"wait")
    host.expect(LOG)
    host.task(BAD, b"e")
    assert host.read() is None
    assert host.process.wait(20) == 9


def test_broken_stream_does_not_wait_for_threads(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.task(THREAD, b"wait")
    host.expect(LOG)
    host.send(frame(99))
    assert host.read() is None
    status, _, err = host.end()
    assert status == 3 and "unknown kind 99" in err


def test_end_of_file_waits_for_what_runs(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.send(host.next_task(WAIT, b"a") + b"".join(host.next_task(TALK, b"%d" % i) for i in range(8))
              + host.next_task(OPEN, b"a"))
    host.close_input()
    answered = {host.expect(RESULT, skip=(LOG, PROGRESS)).id for _ in range(10)}
    assert answered == set(range(1, 11))
    assert host.end() == (0, "", "")


def test_handler_that_catches_its_cancel(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    number = host.task(SAVES)
    host.expect(PROGRESS)
    host.send(cancel(number))
    assert host.result(number) == b"saved"


def test_arena_and_limits(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    data = bytes(range(256)) * 4096
    for code in (VIEW, WAIT):
        host.task(OPEN, host.place(data), flags=1)
        host.result()
        host.task(code, host.place(data), flags=1)
        assert host.result() == data
    host.task(VIEW, b"short")
    assert host.result() == b"short"
    host.task(LEFT, flags=TIMEOUT, aux=1500000)
    assert host.result() == b"True"
    host.task(LEFT)
    assert host.result() == b"none"


def test_one_at_a_time_keeps_the_page_of_one(start: Any) -> None:
    host = start(HANDLERS.replace('"concurrency": 4', '"concurrency": 1'), mem=MEM)
    assert host.hello["concurrency"] == "1"
    host.send(host.next_task(TALK, b"1") + host.next_task(WAIT, b"2"))
    host.expect(PROGRESS, 2, skip=(LOG, RESULT))
    assert (host.words[16], host.words[17], host.words[RUNNING]) == (2, 1, 0)
    host.send(cancel(2))
    assert host.expect(ERROR, 2).code == 4
    assert host.words[17] == 2


def test_fork_in_an_async_worker(start: Any) -> None:
    host = start(HANDLERS + """
@bullpen.task
async def stray(data):
    pid = os.fork()
    if pid:
        return str(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
""", mem=MEM)
    host.task(10)
    assert host.result() == b"1"
    host.task(VIEW, b"lives")
    assert host.result() == b"lives"
