"""Shared memory: the page, recall, the arena, and what a dead worker leaves behind."""

from __future__ import annotations

import hashlib
import signal
import struct
from typing import Any, Dict

import pytest
from host import ARENA, ERROR, HELLO, RESULT, RETURNED, frame, pairs_of

MEM = 4 << 20
STARTED, FINISHED, RECALL = 16, 17, 32

HANDLERS = """
import hashlib, os, signal
@bullpen.task
def echo(data): return data
@bullpen.task
def die(data): os.kill(os.getpid(), signal.SIGKILL)
@bullpen.task(view=True)
def digest(data):
    assert type(data) is memoryview
    return hashlib.sha256(data).hexdigest()
@bullpen.task(view=True)
def same(data): return data
@bullpen.task
def size(data): return bytes(int(data))
@bullpen.task
def leave(data): raise SystemExit(int(data))
@bullpen.task(view=True)
def keep(data):
    global kept
    kept = data
@bullpen.task
def look(data):
    try:
        return bytes(kept)
    except ValueError as error:
        return str(error)
"""
ECHO, DIE, DIGEST, SAME, SIZE, LEAVE, KEEP, LOOK = range(1, 9)


def test_words_follow_the_tasks(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    assert host.hello["caps"] == f"page arena ask={int(signal.SIGURG)}"
    assert host.hello["concurrency"] == "1"
    host.number = 0xFFFFFFFD  # over the wrap
    for want in (0xFFFFFFFE, 0xFFFFFFFF, 1, 2):
        host.task(ECHO, b"x")
        assert host.result(want) == b"x"
        assert (host.words[STARTED], host.words[FINISHED]) == (want, want)
    assert host.end() == (0, "", "")


def test_recall(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.words[RECALL] = 2
    host.send(b"".join(host.next_task(ECHO, b"%d" % i) for i in range(1, 4)))
    assert host.result(1) == b"1"
    host.expect(RETURNED, 2)
    host.expect(RETURNED, 3)
    assert (host.words[STARTED], host.words[FINISHED]) == (3, 3)
    host.words[RECALL] = 0
    host.task(ECHO, b"again")
    assert host.result(4) == b"again"


def test_recall_over_the_wrap(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.number = 0xFFFFFFFD
    host.words[RECALL] = 1
    host.send(b"".join(host.next_task(ECHO) for _ in range(4)))
    for want in (0xFFFFFFFE, 0xFFFFFFFF):
        host.result(want)
    host.expect(RETURNED, 1)
    host.expect(RETURNED, 2)


def test_death_in_a_task(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.send(host.next_task(ECHO, b"a") + host.next_task(DIE) + host.next_task(ECHO, b"b"))
    assert host.read() is None  # the answer of task 1 was held: it is lost
    assert host.process.wait(20) == -signal.SIGKILL
    assert (host.words[STARTED], host.words[FINISHED]) == (2, 1)


def test_without_page_answers_come_before_the_next_start(start: Any) -> None:
    host = start(HANDLERS)
    assert host.hello["caps"] == ""
    host.send(host.next_task(ECHO, b"a") + host.next_task(DIE) + host.next_task(ECHO, b"b"))
    assert host.result(1) == b"a"
    assert host.read() is None


def test_exit_in_a_handler_ends_the_worker(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.send(host.next_task(ECHO, b"a") + host.next_task(LEAVE, b"41") + host.next_task(ECHO))
    assert host.result(1) == b"a"  # what is held is written
    assert host.read() is None
    assert host.end()[0] == 41
    assert (host.words[STARTED], host.words[FINISHED]) == (2, 1)


def test_arena_both_ways(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    payload = bytes(range(256)) * 4096
    for code, want in ((ECHO, payload), (SAME, payload), (DIGEST, hashlib.sha256(payload).hexdigest().encode())):
        for offset in (0, 64, MEM - len(payload)):
            host.task(code, host.place(payload, offset), flags=ARENA)
            assert host.result() == want
    host.task(SAME, b"inline")
    assert host.result() == b"inline"


@pytest.mark.parametrize("size, arena", [(32767, False), (32768, True), (MEM, True), (MEM + 1, False), (5 << 20, False)])
def test_large_results(start: Any, size: int, arena: bool) -> None:
    host = start(HANDLERS, mem=MEM)
    for _ in range(3):
        host.task(SIZE, b"%d" % size)
        got = host.expect(RESULT)
        assert bool(got.flags & ARENA) == arena
        if arena:
            offset, length, taken = struct.unpack("<QQQ", got.body)
            assert length == size
            host.longs[18] = taken
        else:
            assert got.body == bytes(size)


def test_ring_falls_back_to_the_frame_and_recovers(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    sizes = [1 << 20, 3 << 20, 40000, 1 << 20, 40000]
    host.send(b"".join(host.next_task(SIZE, b"%d" % n) for n in sizes))
    got = [host.expect(RESULT) for _ in sizes]
    assert [bool(g.flags & ARENA) for g in got] == [True, True, False, False, False]
    host.longs[18] = struct.unpack("<QQQ", got[0].body)[2]  # the first is copied out
    host.task(SIZE, b"%d" % 1000000)
    assert host.expect(RESULT).flags & ARENA


def test_ring_like_the_rule_says(start: Any) -> None:
    """A model of section 6.2, written from its text, gives the same places."""
    host = start(HANDLERS, mem=MEM)
    taken = freed = 0
    for i, size in enumerate([40000, 65536, 1 << 20, 3 << 20, 33333, 2 << 20, MEM, 70001] * 3):
        host.task(SIZE, b"%d" % size)
        got = host.expect(RESULT)
        base = freed
        at = taken
        if freed == taken:
            at = base = -(-taken // MEM) * MEM
        room = -(-size // 64) * 64
        if at % MEM + room > MEM:
            at = -(-at // MEM) * MEM
        if at + room - base > MEM:
            assert not got.flags & ARENA
        else:
            taken = at + room
            assert struct.unpack("<QQQ", got.body) == (4096 + MEM + at % MEM, size, taken)
        if i % 3 == 2:
            freed = host.longs[18] = taken


def test_view_ends_with_the_answer(start: Any) -> None:
    host = start(HANDLERS, mem=MEM)
    host.task(KEEP, host.place(b"x" * 40000), flags=ARENA)
    host.result()
    host.task(LOOK)
    assert b"released" in host.result()


@pytest.mark.parametrize("offset, length", [(0, 40000), (4095, 40000), (4096 + MEM, 1), (4096 + MEM - 1, 2),
                                            (4096, MEM + 1), (2 ** 64 - 1, 2), (4096, 2 ** 64 - 1)])
def test_reference_outside_of_its_part(start: Any, offset: int, length: int) -> None:
    host = start(HANDLERS, mem=MEM)
    host.task(ECHO, struct.pack("<QQ", offset, length), flags=ARENA)
    assert host.read() is None
    status, _, err = host.end()
    assert status == 3 and "outside its part" in err


def test_bound_of_the_result_counts_in_the_arena_too(start: Any) -> None:
    host = start(HANDLERS, mem=MEM, hello={"output": "50000"})
    host.task(SIZE, b"50001")
    assert host.expect(ERROR).code == 7
    host.task(SIZE, b"50000")
    assert len(host.result()) == 50000


def test_result_longer_than_the_frames_of_the_host(start: Any) -> None:
    host = start(HANDLERS, hello={"max_frame": "1000"})
    host.task(SIZE, b"1001")
    got = host.expect(ERROR)
    assert got.code == 7 and "1000" in got.pairs["message"]
    host.task(SIZE, b"1000")
    assert len(host.result()) == 1000


def test_huge_frame_leaves_no_huge_buffer(start: Any) -> None:
    host = start("""
        import gc
        @bullpen.task
        def size(data):
            from bullpen._channel import Reader
            return str([len(o.data) for o in gc.get_objects() if isinstance(o, Reader)])
        """)
    host.task(1, bytes(8 << 20))
    assert host.result() == b"[%d]" % (16 + (8 << 20))
    host.task(1)
    assert host.result() == b"[65536]"


@pytest.mark.parametrize("mark, parts, say", [
    (0, {}, "mark of the page"),
    (0x31504C42, {"arena.request": "4096 1", "arena.reply": f"4096 {3 * MEM}"}, "arena.reply lies outside"),
    (0x31504C42, {"arena.request": "4096", "arena.reply": "4096 1"}, "arena.request is not OFFSET LENGTH")])
def test_memory_that_cannot_be(start: Any, mark: int, parts: Dict[str, str], say: str) -> None:
    host = start(HANDLERS, mem=MEM, greet=False)
    host.words[0] = mark
    try:
        host.send(frame(HELLO, body=pairs_of((k, v.encode()) for k, v in parts.items()), code=1))
    except BrokenPipeError:
        pass  # it may have seen the page before
    status, _, err = host.end()
    assert status == 3 and say in err
