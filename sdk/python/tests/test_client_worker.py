"""The client in a worker: what a handler submits says which task it waits for, and what it does not cost."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Iterator

import pytest
from fake_server import Server
from host import HERE, RESULT, STARTED
from test_page import MEM

CALLS = """
import asyncio, threading
from bullpen.client import Client
URL = %r
client = Client(URL)
def call(**options):
    return client.enqueue("p", **options).id
"""
PLAIN = CALLS + """
@bullpen.task
def alone(data): return call()
@bullpen.task
def informed(data, task): return call()
@bullpen.task
def thread(data):
    found = []
    one = threading.Thread(target=lambda: found.append(call()))
    one.start()
    one.join()
    return found[0]
@bullpen.task
def waits(data): return client.run("p", data) + client.job("J0").result()
@bullpen.task
def says(data): return call(parent=data.decode(), meta={"traceparent": "own"})
@bullpen.task
def many(data): return ",".join(job.id for job in client.enqueue_many("p", ["a", "b"]))
@bullpen.task
def ephemeral(data): return client.run_ephemeral("p", data)
"""
ASYNC = CALLS + """
from bullpen.client import AsyncClient
other = AsyncClient(URL)
gates = []
@bullpen.task
async def alone(data):
    if not gates:
        gates.append(asyncio.Event())  # of the event loop that runs
    if data == b"wait":
        await gates[0].wait()
    gates[0].set()
    return (await other.enqueue("p", data)).id
@bullpen.task
async def informed(data, task):
    return (await asyncio.create_task(other.enqueue("p"))).id
@bullpen.task
def thread(data): return call()
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


def sent(server: Server, name: str = "bullpen-parent", at: int = -1) -> str:
    return server.seen[at].headers.get(name, "")


@pytest.mark.parametrize("mem", [0, MEM])
@pytest.mark.parametrize("source,handlers", [(PLAIN, 3), (ASYNC, 3)])
def test_parent(start: Any, server: Server, source: str, handlers: int, mem: int) -> None:
    host = start(source % server.url, mem=mem)
    for code in range(1, handlers + 1):
        number = host.task(code, meta={"bullpen.id": f"T{code}", "traceparent": TRACE, "tracestate": "a=b"})
        assert host.expect(RESULT, number, skip=(STARTED,)).body
        assert (sent(server), sent(server, "traceparent"), sent(server, "tracestate")) == (f"T{code}", TRACE, "a=b")
        number = host.task(code)  # without an id: that of the one before must not be told
        assert host.expect(RESULT, number, skip=(STARTED,)).body
        assert sent(server) == sent(server, "traceparent") == ""
        number = host.task(code, meta={"other": "x"})
        assert host.expect(RESULT, number, skip=(STARTED,)).body
        assert sent(server) == ""


def test_parents_of_waits_and_of_bulk(start: Any, server: Server) -> None:
    host = start(PLAIN % server.url)
    server.wait_most = 0.0
    host.task(4, b"a", meta={"bullpen.id": "T4"})
    assert host.result() == b"AA"
    assert [seen.headers.get("bullpen-parent") for seen in server.seen] == ["T4"] * len(server.seen)
    assert server.seen[0].query["wait"] == "600s"  # while it waits, the pool has a worker more
    host.task(5, b"mine", meta={"bullpen.id": "T5", "traceparent": TRACE})
    host.result()
    assert sent(server) == "mine" and sent(server, "traceparent") == "" and "traceparent=own" in sent(server, "bullpen-meta")
    host.task(5, b"", meta={"bullpen.id": "T5"})
    host.result()
    assert sent(server) == ""
    for code, word in ((6, "bulk"), (7, "run")):
        host.task(code, b"x", meta={"bullpen.id": "T6", "traceparent": TRACE})
        host.result()
        assert sent(server) == "T6" and server.seen[-1].path.endswith(word)
        assert TRACE in (sent(server, "traceparent") or server.seen[-1].body.decode())


def test_parents_of_tasks_at_the_same_time(start: Any, server: Server) -> None:
    host = start(ASYNC % server.url, mem=MEM)
    first = host.task(1, b"wait", meta={"bullpen.id": "T1"})
    second = host.task(1, b"go", meta={"bullpen.id": "T2"})
    assert {host.expect(RESULT).id, host.expect(RESULT).id} == {first, second}
    assert {seen.body: seen.headers["bullpen-parent"] for seen in server.seen} == {b"wait": "T1", b"go": "T2"}


def test_outside_of_a_worker(server: Server) -> None:
    from bullpen.client import Client

    with Client(server.url) as client:
        client.enqueue("p")
    assert sent(server) == ""


@pytest.mark.parametrize("program,unwanted", [
    ("import bullpen", {"bullpen.client", "bullpen._http", "http", "asyncio", "ssl", "json", "socket", "urllib", "email"}),
    ("from bullpen.client import Client; Client()", {"bullpen._client_async", "http", "asyncio", "ssl", "email"}),
])
def test_what_an_import_loads(program: str, unwanted: Any) -> None:
    found = subprocess.run([sys.executable, "-S", "-c", program + "; import sys; print(*sys.modules)"], cwd=HERE.parent,
                           capture_output=True, text=True, check=True, timeout=60)
    assert "bullpen" in found.stdout.split()
    assert unwanted & set(found.stdout.split()) == set()


def test_async_client_is_found() -> None:
    import bullpen.client

    assert bullpen.client.AsyncClient.__name__ == "AsyncClient"
    with pytest.raises(AttributeError):
        bullpen.client.nothing  # noqa: B018
