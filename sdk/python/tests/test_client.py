"""What the clients do against a server that does what it should; each case for both."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterator

import pytest
from bullpen import client as api
from client_kinds import KINDS, make
from fake_server import Handler, Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


@pytest.fixture(params=KINDS)
def client(request: Any, server: Server) -> Iterator[Any]:
    with make(request.param, server.url, timeout=5.0) as one:
        yield one


def test_enqueue_and_result(client: Any, server: Server) -> None:
    job = client.enqueue("thumbs/x", b"data", task="upper", key="k\u00e4y 1", priority="high", delay=1.5, timeout="1m30s",
                         deadline=datetime(2027, 1, 1, 8, tzinfo=timezone(timedelta(hours=1))), attempts=3, memory="512MiB",
                         cpu=0.5, output=1000, backoff=timedelta(seconds=2), idempotent=True, compensate="undo", bury="tell",
                         meta={"a b": "1&2", "raw": b"\xff"}, content_type="image/jpeg", parent="P1")
    assert (job.id, job.pool, job.existing) == ("J0", "thumbs/x", False)
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/pools/thumbs%2Fx/jobs", b"data")
    assert seen.query == {
        "task": "upper", "key": "k\u00e4y 1", "priority": "high", "delay": "1.5s", "timeout": "1m30s", "attempts": "3",
        "deadline": "2027-01-01T07:00:00Z", "memory": "512MiB", "cpu": "0.5", "output": "1000", "backoff": "2s",
        "idempotent": "true", "compensate": "undo", "bury": "tell"}
    assert seen.headers["bullpen-meta"] == "a+b=1%262&raw=%FF"
    assert (seen.headers["content-type"], seen.headers["bullpen-parent"]) == ("image/jpeg", "P1")
    assert job.result() == b"DATA"
    info = job.info()
    assert (info.state, info.over, info.key, info.meta["a b"]) == ("done", True, "k\u00e4y 1", "1&2")
    assert info.enqueued == datetime(2026, 1, 31, 8, 0, 0, 123456, timezone.utc)
    assert info.raw["future"] == [1]
    assert client.enqueue("thumbs/x", key="k\u00e4y 1").existing
    assert client.payload("J0") == b"data"


@pytest.mark.parametrize("payload", [b"ab", bytearray(b"ab"), memoryview(b"ab"), "ab"])
def test_run(client: Any, payload: Any) -> None:
    assert client.run("p", payload) == b"AB"
    assert client.submit("p", payload, wait=5) == b"AB"
    assert client.run_ephemeral("p", payload, id="mine", timeout=2) == b"AB"


def test_no_payload_and_no_result(client: Any) -> None:
    assert client.run("p") == b""
    assert client.enqueue("p", "").result(5) == b""


def test_large_payload_and_result(client: Any) -> None:
    payload = os.urandom(3 << 20)
    assert client.run("p", payload) == payload.upper()


def test_how_a_job_ends(client: Any) -> None:
    with pytest.raises(api.JobFailed) as caught:
        client.run("p", task="fail")
    error = caught.value
    assert (error.outcome, error.reason, error.type, error.message, error.stack, error.exit_code, error.signal, error.detail,
            error.attempts, error.id, error.worker, error.retryable, error.status, error.task) == (
        "failed", "final", "ValueError", "no", "line 1", 3, "killed", "last words", 3, "J0", "w1", False, 422, "fail")
    assert str(error) == "the job failed: ValueError: no"
    with pytest.raises(api.JobFailed) as caught:
        client.enqueue("p", task="expire").result()
    assert (caught.value.outcome, caught.value.reason) == ("", "expired")
    with pytest.raises(api.JobFailed) as caught:
        client.run_ephemeral("p", task="fail")
    assert caught.value.outcome == "failed"


def test_waits_end_and_go_on(client: Any, server: Server) -> None:
    with pytest.raises(api.NotEnded) as caught:
        client.run("p", b"x", task="slow", wait=0.05)
    assert caught.value.id == "J0" and isinstance(caught.value, TimeoutError)
    job = client.job("J0")
    for call in (job.wait, job.result):
        with pytest.raises(api.NotEnded):
            call(0.05)
    server.wait_most = 0.02  # the bound of the server is shorter than the wait

    def end(handler: Handler) -> None:
        handler.server.jobs["J0"].end()
        handler.route()

    server.faults = [None, None, end]
    assert job.result(5) == b"X"
    assert job.wait().state == "done"
    assert sum(seen.path.endswith("/result") for seen in server.seen) == 4


def test_cancel_and_retry(client: Any, server: Server) -> None:
    job = client.enqueue("p", task="slow")
    assert job.cancel().state == "canceled"
    assert job.cancel().state == "canceled"  # it is what was asked for
    with pytest.raises(api.JobFailed) as caught:
        job.result()
    assert caught.value.outcome == "canceled"
    done = client.enqueue("p", b"y")
    with pytest.raises(api.Ended):
        client.cancel(done.id)
    with pytest.raises(api.NotDead):
        client.retry(done.id)
    dead = client.enqueue("p", b"z", task="fail")
    assert client.retry(dead.id).result() == b"Z"
    client.cancel_run("mine")
    assert server.seen[-1].path == "/v1/run/mine"


def test_lists(client: Any, server: Server) -> None:
    for i in range(7):
        client.enqueue("p" if i % 2 else "q", task="fail" if i < 4 else "upper")
    assert [info.id for info in client.list(page=2)] == [f"J{i}" for i in range(7)]
    assert [info.id for info in client.list(pool="p", state="done")] == ["J5"]
    assert [info.id for info in client.list(pool="p", state="done,dead", reason="exhausted", outcome="failed", cause="89af7e51c13b")] == [
        "J1", "J3", "J5"]
    assert server.seen[-1].query == {"pool": "p", "state": "done,dead", "reason": "exhausted", "outcome": "failed", "cause": "89af7e51c13b",
                                     "limit": "100"}
    assert [info.id for info in client.list_dead(page=3)] == ["J0", "J1", "J2", "J3"]
    assert client.get_dead("J0").raw["payload_base64"] == ""
    assert client.retry_dead("J1").pool == "p"
    client.remove_dead("J0")
    with pytest.raises(api.NotFound):
        client.remove_dead("J0")
    assert client.retry_all_dead(pool="p", limit=5)["wanted"] == {"pool": "p", "limit": 5}
    assert client.retry_all_dead(cause="89af7e51c13b", since=datetime(2027, 1, 1, tzinfo=timezone.utc))["wanted"] == {
        "cause": "89af7e51c13b", "since": "2027-01-01T00:00:00Z"}
    assert client.cancel_all(pool="p", state="queued", order="newest")["wanted"] == {"pool": "p", "state": "queued", "order": "newest"}
    assert client.causes(pool="p", search="x y")["wanted"] == {"pool": "p", "search": "x y"}
    assert client.remove_all_dead(all=True)["wanted"] == {"all": True}
    with pytest.raises(api.BadRequest):
        client.remove_all_dead()


def test_pools(client: Any) -> None:
    assert [pool.name for pool in client.pools()] == ["a", "b"]
    pool = client.pool("a")
    assert (pool.state, pool.min, pool.max, pool.workers, pool.queued, pool.outcomes, pool.paused) == (
        "open", 1, 4, {"idle": 1}, 3, {"ok": 7}, False)
    assert client.pause("a").paused and not client.resume("a").paused
    assert client.scale("a", max=9).max == 9 and client.scale("a", min=0, max=2).min == 0
    with pytest.raises(api.BadRequest):
        client.scale("a")
    with pytest.raises(api.StartFailed):
        client.reload_pool("a")
    assert client.status().ready is True
    with pytest.raises(api.BadConfig) as caught:
        client.reload()
    assert caught.value.faults == ("bullpen.yaml:3: unknown key",) and "bullpen.yaml:3" in str(caught.value)


def test_events(client: Any) -> None:
    job = client.enqueue("p", b"x")
    events = list(job.follow())
    assert [event.kind for event in events] == ["state", "progress", "log", "end"]
    assert events[0].state == "running" and events[0].attempt == 1
    assert events[1].progress == (0.5, "half")
    assert events[2].log.text == "hello\u2028you" and events[2].id == "1.3" and events[2].log.level == logging.WARNING
    assert events[3].job.id == job.id and events[3].job.over
    assert [event.kind for event in client.follow(job.id, after="1.2")] == ["log", "end"]
    assert list(client.follow(job.id, after=events[3].id)) == []
    with pytest.raises(api.NotFound):
        list(client.follow("none"))
    assert next(iter(client.follow(job.id))).kind == "state"  # and leave it there


def test_many(client: Any, server: Server) -> None:
    given = [b"a", "b\u00fc", {"payload": b"\xff", "key": "k", "attempts": 2, "delay": 1, "meta": {"m": b"1"}, "content_type": "a/b"},
             {"task": "refused"}]
    found = list(client.enqueue_many("p", given, priority="low", task="upper", parent="P"))
    assert [getattr(one, "id", "") for one in found] == ["J0", "J1", "J2", ""]
    assert isinstance(found[3], api.Overloaded) and found[0].pool == "p"
    assert found[1].result() == "B\u00fc".encode() and found[0].result() == b"A"
    assert server.jobs["J2"].query == {"priority": "low", "task": "upper", "key": "k", "attempts": 2, "delay": "1s",
                                       "meta": {"m": "1", "content-type": "a/b"}, "payload_base64": "/w=="}
    assert server.seen[0].headers["bullpen-parent"] == "P"
    read = []

    def jobs() -> Iterator[bytes]:
        for i in range(1201):
            read.append(i)
            yield b"x"

    results = client.enqueue_many("p", jobs())
    first = next(results)
    assert first.id == "J3" and len(read) == 500  # it is not read further than it must
    assert [job.id for job in results] == [f"J{i}" for i in range(4, 1204)]
    assert list(client.enqueue_many("p", [])) == []


def test_connections_are_kept(client: Any, server: Server) -> None:
    for _ in range(5):
        client.run("p", b"x")
        client.run_ephemeral("p", b"x")
        with pytest.raises(api.NotFound):
            client.get("none")
    assert server.connections == 1


BAD: Dict[str, Any] = {
    "unknown option": lambda c: c.enqueue("p", attempt=3),
    "wrong kinds": lambda c: c.enqueue("p", delay=-1, attempts="x", idempotent=1, at=5),
    "payload": lambda c: c.enqueue("p", {"a": 1}),
    "meta": lambda c: c.enqueue("p", meta="text"),
    "meta in bulk": lambda c: list(c.enqueue_many("p", [{"meta": {"a": b"\xff"}}])),
    "refused by the server": lambda c: c.enqueue("p", priority="urgent"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests(client: Any, name: str) -> None:
    with pytest.raises(api.BadRequest) as caught:
        BAD[name](client)
    assert isinstance(caught.value, ValueError)
    text = str(caught.value)
    want = {"unknown option": ["did you mean 'attempts'?"], "wrong kinds": ["delay: ", "attempts: ", "idempotent: ", "at: "],
            "payload": ["json.dumps"], "meta": ["mapping"], "meta in bulk": ["UTF-8"],
            "refused by the server": ["priority is none; second"]}[name]
    assert all(part in text for part in want), text


NEVER: Dict[str, Any] = {
    "unknown": (lambda c: c.run_ephemeral("p", task="unknown"), api.UnknownTask),
    "refused": (lambda c: c.run_ephemeral("p", task="refused"), api.Refused),
    "durable": (lambda c: c.run_ephemeral("durable"), api.Forbidden),
    "no pool": (lambda c: c.enqueue("none"), api.NotFound),
    "no job": (lambda c: c.get("none"), LookupError),
}


@pytest.mark.parametrize("name", NEVER)
def test_refusals(client: Any, name: str) -> None:
    call, kind = NEVER[name]
    with pytest.raises(kind):
        call(client)


@pytest.mark.parametrize("kind", KINDS)
def test_token(kind: str, server: Server) -> None:
    server.token = "secret-token-0123"
    with make(kind, server.url) as stranger, pytest.raises(api.Unauthorized):
        stranger.status()
    with make(kind, server.url + "/", token="secret-token-0123") as friend:
        assert friend.status().ready is True
    for bad in ("two words", "line\n", "\u00e4"):
        with pytest.raises(ValueError) as caught:
            make(kind, server.url, token=bad)
        assert bad == "" or bad not in str(caught.value)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8650", "ftp://x", "http://", "http://u:p@x", "http://x:99999", "http://x?a=b",
                                 "http://x/a b", "http://\u00e4"])
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        api.Client(url)
    assert "http://127.0.0.1:8650" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_there(kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with make(kind, f"http://127.0.0.1:{free.getsockname()[1]}") as client:
            for call in (client.status, lambda: client.enqueue("p", key="k"), lambda: client.run_ephemeral("p"),
                         lambda: list(client.enqueue_many("p", [b""])), lambda: list(client.follow("J"))):
                with pytest.raises(api.Unreachable) as caught:
                    call()
                assert "bullpen serve" in str(caught.value) and isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize("kind", KINDS)
def test_closed_client(kind: str, server: Server) -> None:
    with make(kind, server.url) as client:
        client.status()
        client.close()
        with pytest.raises(ValueError):
            client.status()


def test_threads(server: Server) -> None:
    wrong = []

    def work(client: api.Client, mine: int) -> None:
        for i in range(30):
            text = f"{mine}-{i}-a"
            if client.run("p", text) != text.upper().encode():
                wrong.append(text)

    with api.Client(server.url, connections=3) as client:
        threads = [threading.Thread(target=work, args=(client, i)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and len(client._idle) <= 3


def test_forked_child_uses_connections_of_its_own(server: Server) -> None:
    with api.Client(server.url) as client:
        client.run("p", b"x")
        child = os.fork()
        if not child:
            good = False
            try:
                good = all(client.run("p", b"child") == b"CHILD" for _ in range(20))
            finally:
                os._exit(0 if good else 1)
        assert all(client.run("p", b"parent") == b"PARENT" for _ in range(20))
        assert os.waitpid(child, 0)[1] == 0


def test_many_at_once(server: Server) -> None:
    async def main() -> None:
        async with api.AsyncClient(server.url, at_once=8) as client:
            async def one(i: int) -> None:
                assert await client.run("p", f"a{i}") == f"A{i}".encode()

            await asyncio.gather(*(one(i) for i in range(100)))
            assert server.connections <= 8

            async def jobs() -> Any:
                for i in range(3):
                    yield f"x{i}"

            assert len([job async for job in client.enqueue_many("p", jobs())]) == 3

    asyncio.run(main(), debug=True)


def test_one_client_on_two_event_loops(server: Server) -> None:
    client = api.AsyncClient(server.url)
    call: Callable[[], Any] = lambda: client.run("p", b"x")

    async def main() -> bytes:
        found: bytes = await call()
        return found

    assert asyncio.run(main()) == asyncio.run(main()) == b"X"
    asyncio.run(client.close())
