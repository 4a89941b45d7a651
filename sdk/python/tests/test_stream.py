"""Handlers that yield their results in pieces."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest
from host import CHUNK, ERROR, META, RESULT, frame
from test_page import MEM

SYNC = """
import time
@bullpen.task
def pieces(data, task):
    yield data
    task.progress(0.5)
    yield None
    yield "text"
    yield bytearray(b"array")
    return b"last"
@bullpen.task
def large(data):
    yield bytes(int(data))
@bullpen.task
def odd(data):
    try:
        yield b"begun"
        yield {"7": 7, "u": "\\udc80"}[data.decode()]
    finally:
        print("cleaned up")
@bullpen.task
def fails(data):
    yield b"begun"
    raise bullpen.Failed("in the middle", retry=False)
@bullpen.task
def waits(data):
    yield b"begun"
    try:
        time.sleep(60)
    except bullpen.TaskCanceled:
        yield b"cleaned up"
        raise
@bullpen.task(view=True)
def view(data):
    yield data[:2]
    yield data[2:]
@bullpen.task
def echo(data):
    return data
"""
PIECES, LARGE, ODD, FAILS, WAITS, VIEW, ECHO = range(1, 8)

ASYNC = SYNC.replace("def pieces", "async def pieces").replace("    return b\"last\"\n", "    yield b\"last\"\n") + """
import asyncio
OPTIONS = {"concurrency": 4}
@bullpen.task
async def waits_async(data):
    yield b"begun"
    await asyncio.sleep(60)
"""
WAITS_ASYNC = 8


def answer(host: Any, number: int) -> Tuple[List[bytes], Any]:
    """The chunks of a task, and its answer."""
    chunks: List[bytes] = []
    while True:
        got = host.read()
        assert got is not None, host.errors()
        if got.kind == CHUNK:
            assert got.id == number
            chunks.append(got.body)
        elif got.kind in (RESULT, ERROR):
            assert got.id == number
            return chunks, got


@pytest.mark.parametrize("source", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("mem", [0, MEM])
def test_pieces(start: Any, source: str, mem: int) -> None:
    host = start(source, mem=mem, hello={"caps": "future chunks"})
    assert "chunks" in host.hello["caps"].split()
    chunks, got = answer(host, host.task(PIECES, b"data"))
    assert chunks + [got.body] in ([b"data", b"text", b"array", b"last"], [b"data", b"text", b"array", b"last", b""])
    chunks, got = answer(host, host.task(LARGE, b"2500000"))
    assert [len(chunk) for chunk in chunks] == [1 << 20, 1 << 20, 2500000 - (2 << 20)] and got.body == b""
    assert answer(host, host.task(VIEW, b"abcd"))[0] == [b"ab", b"cd"]
    chunks, got = answer(host, host.task(FAILS))
    assert (chunks, got.code, got.pairs["message"]) == ([b"begun"], 1, "in the middle")
    for data, fault in ((b"7", "TypeError"), (b"u", "UnicodeEncodeError")):
        chunks, got = answer(host, host.task(ODD, data))
        assert (chunks, got.kind, got.code, got.pairs["type"]) == ([b"begun"], ERROR, 1, fault)
    assert answer(host, host.task(ECHO, b"on"))[1].body == b"on"
    assert host.end()[0] == 0


@pytest.mark.parametrize("source", [SYNC, ASYNC], ids=["sync", "async"])
def test_whole_for_a_host_without_chunks(start: Any, source: str) -> None:
    host = start(source)
    assert "chunks" not in host.hello["caps"].split()
    assert answer(host, host.task(PIECES, b"data"))[1].body == b"datatextarraylast"
    assert answer(host, host.task(LARGE, b"0"))[1].body == b""
    assert answer(host, host.task(FAILS))[1].kind == ERROR
    host.end()


@pytest.mark.parametrize("source", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("hello", [{"caps": "chunks"}, {}], ids=["chunks", "whole"])
def test_output_bound(start: Any, source: str, hello: Any) -> None:
    host = start(source, hello={**hello, "output": "1000"})
    for handler, data in ((LARGE, b"1001"), (PIECES, b"x" * 988)):
        chunks, got = answer(host, host.task(handler, data))
        assert (got.kind, got.code) == (ERROR, 7) and sum(map(len, chunks)) <= 1000
    chunks, got = answer(host, host.task(PIECES, b"x" * 987))
    assert b"".join(chunks) + got.body == b"x" * 987 + b"textarraylast"
    chunks, got = answer(host, host.task(LARGE, b"11", meta={"bullpen.output": "10"}))
    assert (got.kind, got.code) == (ERROR, 7)
    host.end()


def test_cancel(start: Any) -> None:
    host = start(SYNC, mem=MEM, hello={"caps": "chunks"})
    number = host.task(WAITS)
    assert host.expect(CHUNK, number).body == b"begun"
    host.ask(number, 4)
    assert host.expect(CHUNK, number).body == b"cleaned up"
    assert host.expect(ERROR, number).code == 4
    host.end()


def test_cancel_async(start: Any) -> None:
    host = start(ASYNC, hello={"caps": "chunks"})
    number = host.task(WAITS_ASYNC)
    assert host.expect(CHUNK, number, skip=(7,)).body == b"begun"
    host.send(frame(6, number, code=4))
    assert host.expect(ERROR, number).code == 4
    host.end()


def test_several_at_once(start: Any) -> None:
    """Chunks of tasks that run beside each other keep their numbers."""
    host = start(ASYNC, hello={"caps": "chunks"})
    numbers = [host.task(PIECES, str(i).encode()) for i in range(4)]
    found = {number: b"" for number in numbers}
    left = set(numbers)
    while left:
        got = host.read()
        assert got is not None and got.flags & META == 0
        if got.kind in (CHUNK, RESULT):
            found[got.id] += got.body
        if got.kind == RESULT:
            left.remove(got.id)
    assert list(found.values()) == [b"%dtextarraylast" % i for i in range(4)]
    host.end()
