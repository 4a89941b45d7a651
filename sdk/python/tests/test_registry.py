"""Registration, and the parts that need no process."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import bullpen
from bullpen import _channel, _errors, _frames, _output
from bullpen._memory import parse_part
from bullpen._registry import Registry


def wants(call: Any) -> bool:
    return Registry().add(call, "x").wants_task


def test_second_parameter() -> None:
    assert not wants(lambda data: data)
    assert wants(lambda data, task: data)
    assert not wants(lambda data, quality=80: data)
    assert not wants(lambda *parts: parts)
    assert not wants(functools.partial(lambda size, data: data, 3))
    assert not wants(len)

    def typed(data: bytes, task: bullpen.Task = None) -> None: ...  # type: ignore[assignment]

    assert wants(typed)

    assert not wants(lambda data, *, quality=80: data)

    @functools.wraps(typed)
    def wrapped(*arguments: Any) -> Any:
        return typed(*arguments)

    assert wants(wrapped)

    async def later(data: bytes, task: bullpen.Task) -> bytes:
        return data

    entry = Registry().add(later)
    assert entry.wants_task and entry.is_async

    class Model:
        async def __call__(self, data: bytes, task: bullpen.Task) -> bytes:
            return data

    entry = Registry().add(Model(), "model")
    assert entry.wants_task and entry.is_async


@pytest.mark.parametrize("call", [lambda: 1, lambda a, b, c: 1, lambda a, *, b: 1, 7])
def test_functions_that_cannot_be_tasks(call: Any) -> None:
    with pytest.raises(TypeError):
        Registry().add(call, "x")


def test_generators_and_names() -> None:
    def many(data: bytes) -> Any:
        yield data

    async def many_async(data: bytes, task: bullpen.Task) -> Any:
        yield data

    class Many:
        def __call__(self, data: bytes, more: int = 1) -> Any:
            yield data

    registry = Registry()
    for call, learned in ((many, (False, False, True)), (many_async, (True, True, True)), (Many(), (False, False, True))):
        entry = registry.add(call, name=repr(call))
        assert (entry.wants_task, entry.is_async, entry.streams) == learned
    registry = Registry()
    registry.add(lambda data: data, "a")
    for name, why in (("a", "two tasks"), ("", "name"), ("a\nb", "name")):
        with pytest.raises(ValueError, match=why):
            registry.add(lambda data: data, name)
    with pytest.raises(TypeError, match="str"):
        registry.add(lambda data: data, 7)  # type: ignore[arg-type]


def test_decorator_gives_the_function_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from bullpen import _registry
    monkeypatch.setattr(_registry, "registry", Registry())

    @bullpen.task
    def plain(data: bytes) -> bytes:
        return data

    @bullpen.task(name="other", view=True)
    def named(data: memoryview) -> int:
        return len(data)

    assert plain(b"x") == b"x" and named(memoryview(b"xy")) == 2
    assert [(e.name, e.view) for e in _registry.registry.entries] == [("plain", False), ("other", True)]


@pytest.mark.parametrize("concurrency", [0, -1, "4", 1.5])
def test_run_refuses_a_concurrency_that_is_none(concurrency: Any) -> None:
    with pytest.raises(ValueError, match="concurrency"):
        bullpen.run(concurrency)


def test_ended_is_no_exception() -> None:
    assert not issubclass(bullpen.TaskTimeout, Exception) and not issubclass(bullpen.TaskCanceled, Exception)
    assert issubclass(bullpen.TaskTimeout, bullpen.TaskEnded)
    assert _errors.outcome_of(bullpen.TaskCanceled()).code == 4


def test_numbers_wrap() -> None:
    assert _frames.before(1, 2) and not _frames.before(2, 2) and not _frames.before(2, 1)
    assert _frames.before(0xFFFFFFFF, 1) and not _frames.before(1, 0xFFFFFFFF)


def test_microseconds_round_up() -> None:
    assert [_frames.microseconds(n) for n in (0, 1, 1000, 1001, 10 ** 16)] == [0, 1, 1, 2, 0xFFFFFFFF]


def test_text_is_cut_between_characters() -> None:
    assert _frames.cut_utf8("aü".encode(), 2) == b"a"
    assert _frames.cut_utf8("aü".encode(), 3) == "aü".encode()
    line = _output.log_frame(1, 32768, 3, "ü" * 5000)
    assert len(line) == 16 + 8192


def test_levels() -> None:
    assert [_output.log_code(n) - 32768 for n in (5, 10, 20, 25, 30, 40, 50)] == [-6, -4, 0, 2, 4, 8, 12]
    assert _output.log_code(10 ** 9) == 65535 and _output.log_code(-10 ** 9) == 0


@pytest.mark.parametrize("value", ["", "4096", "4096  1", "4096 -1", "4096 1 ", "0 10", "4096 100001", "x y", "٣ ٣"])
def test_parts_that_cannot_be(value: str) -> None:
    with pytest.raises(_frames.Invalid):
        parse_part("arena.request", value, 4096 + 100000)


@pytest.mark.parametrize("value", ["", "-1", "+1", "1 ", "1_0", "0x1", "٣", "9" * 5000, str(1 << 63)])
def test_numbers_that_cannot_be(value: str) -> None:
    with pytest.raises(_frames.Invalid, match="output"):
        _frames.parse_number("output", value)


def test_version_is_the_same_everywhere() -> None:
    from bullpen._client_drive import fixed_headers
    from bullpen._session import SDK
    assert SDK == f"python/{bullpen.__version__}"
    assert fixed_headers(None) == (("User-Agent", f"bullpen-python/{bullpen.__version__}"),)


def test_short_writes() -> None:
    import os
    import threading
    r, w = os.pipe()
    channel = _channel.Channel(w)
    data = os.urandom(1 << 20)
    got = bytearray()

    def drain() -> None:
        while len(got) < len(data):
            got.extend(os.read(r, 1 << 16))

    os.set_blocking(w, False)  # a non-blocking pipe takes a part at a time
    reader = threading.Thread(target=drain)
    reader.start()
    channel.send(data)
    reader.join(20)
    os.close(r)
    os.close(w)
    assert bytes(got) == data
