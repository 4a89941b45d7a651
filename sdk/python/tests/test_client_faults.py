"""What the clients do when the server, or the network, does not do what it should; each case for both."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from typing import Any, Dict, Iterator, List, Tuple

import pytest
from bullpen import _client_calls, _client_steps
from bullpen import client as api
from client_kinds import KINDS, Ordinary, make
from fake_server import PATIENCE, Fault, Handler, Server, slow


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


@pytest.fixture(autouse=True)
def hurry(monkeypatch: Any) -> None:
    """Tries are made again sooner than in earnest."""
    monkeypatch.setattr(_client_steps, "_FIRST_DELAY", 0.004)


@pytest.fixture(params=KINDS)
def client(request: Any, server: Server) -> Iterator[Any]:
    with make(request.param, server.url, timeout=5.0) as one:
        one.status()  # the server is known, and a connection is open
        server.seen.clear()
        yield one


def cut(handler: Handler) -> None:
    handler.cut()


def cut_after(text: bytes) -> Fault:
    def fault(handler: Handler) -> None:
        handler.wfile.write(text)
        handler.close_connection = True
    return fault


def taken_and_cut(handler: Handler) -> None:
    handler.server.add(handler.words[1], handler.query, handler.body)
    handler.cut()


def busy(status: int, cause: str, after: str = "") -> Fault:
    return lambda handler: handler.problem(status, cause, "not now", after)


def proxy(status: int) -> Fault:
    return lambda handler: handler.answer(status, b"<html>bad gateway</html>", "text/html")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
BREAKS: Dict[str, Fault] = {
    "before the answer": cut,
    "closed without an answer": cut_after(b""),
    "in the header": cut_after(HEAD[:20]),
    "in the body": cut_after(HEAD + b"abc"),
    "in a chunk": cut_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
    "before the last chunk": cut_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"),
    "no HTTP": cut_after(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "a proxy": proxy(502),
    "a proxy without room": proxy(503),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_connections(client: Any, server: Server, name: str) -> None:
    """A question is asked again, a submit only with a key."""
    job = client.enqueue("p", b"x", key="first")
    server.faults = [BREAKS[name], BREAKS[name]]
    assert client.get(job.id).state == "done"
    server.faults = [BREAKS[name]]
    assert job.result() == b"X"
    server.faults = [BREAKS[name]]
    assert client.enqueue("p", key="second").id == "J1"
    server.faults = [BREAKS[name]]
    assert client.run("p", b"y", key="third") == b"Y"
    server.seen.clear()
    for call in (lambda: client.enqueue("p"), lambda: client.run("p"), lambda: client.retry(job.id)):
        server.faults = [BREAKS[name]]
        with pytest.raises(api.Unconfirmed):
            call()
    server.faults = [BREAKS[name]]
    with pytest.raises(api.Lost) as caught:
        client.run_ephemeral("p", b"x")
    assert caught.value.outcome == "lost" and isinstance(caught.value, api.JobFailed)
    assert len(server.seen) == 4  # nothing was sent twice
    assert client.run("p", b"z") == b"Z"


def test_a_key_makes_one_job(client: Any, server: Server) -> None:
    server.faults = [taken_and_cut, taken_and_cut]
    job = client.enqueue("p", b"x", key="k")
    assert (job.id, job.existing, len(server.jobs)) == ("J0", True, 1)


def test_a_key_and_no_time_left(server: Server) -> None:
    for kind in KINDS:
        with make(kind, server.url, timeout=0.3) as client:
            client.status()
            server.faults = [taken_and_cut] + [cut] * 20
            with pytest.raises(api.Unconfirmed):  # for it may have been taken
                client.enqueue("p", key=kind)
            server.faults = [cut] * 20
            with pytest.raises(api.Unreachable):
                client.get("J0")
            server.faults = []


NOT_NOW: List[Tuple[int, str]] = [(429, "overloaded"), (429, "full"), (429, "rate"), (503, "closed"), (503, "store")]


@pytest.mark.parametrize("status,cause", NOT_NOW)
def test_never_started_is_tried_again(client: Any, server: Server, status: int, cause: str) -> None:
    for call in (lambda: client.enqueue("p").id, lambda: client.run_ephemeral("p", b"x"), lambda: client.run("p", b"x"),
                 lambda: len(list(client.enqueue_many("p", [b"x"]))), client.status):
        server.faults = [busy(status, cause), busy(status, cause)]
        server.seen.clear()
        assert call()
        assert len(server.seen) == 3


def test_retry_after(client: Any, server: Server) -> None:
    server.faults = [busy(429, "rate", "1")]
    begun = time.monotonic()
    client.status()
    assert time.monotonic() - begun >= 1.0
    server.faults = [busy(429, "full", "9")]  # more than there is time
    begun = time.monotonic()
    with pytest.raises(api.Overloaded) as caught:
        client.enqueue("p")
    assert time.monotonic() - begun < 4.0
    assert (caught.value.retry_after, caught.value.cause, caught.value.status) == (9.0, "full", 429)
    assert isinstance(caught.value, api.NeverStarted)
    server.faults = [busy(503, "start-failed", "1")]
    with pytest.raises(api.StartFailed):
        client.run_ephemeral("p")


def test_unconfirmed(client: Any, server: Server) -> None:
    fault: Fault = lambda handler: handler.problem(503, "unconfirmed", "it may be stored", job="J7")
    server.faults = [fault]
    with pytest.raises(api.Unconfirmed) as caught:
        client.enqueue("p")
    assert caught.value.id == "J7"
    server.faults = [fault]
    assert client.enqueue("p", key="k").id == "J0"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"id":5}', b'{"state":"x"}', b'{"id":"J","state":[]}', b"[" * 100_000,
                                  b'{"id":"J","state":"done","enqueued":"yesterday"}', b"\xff", b'{"id":"J","state":"x","lines":[1]}',
                                  b'{"id":"J","state":"x","enqueued":"2026-13-01T00:00:00Z"}', b'{"id":"J","state":"x","progress":true}',
                                  b'{"id":"J","state":"x","progress":1' + b"0" * 400 + b"}"])
def test_answers_that_are_none(client: Any, server: Server, body: bytes) -> None:
    server.faults = [lambda handler: handler.answer(200, body)]
    with pytest.raises(api.BadAnswer):
        client.get("J0")
    server.faults = [lambda handler: handler.answer(500, body, "application/problem+json")]
    with pytest.raises((api.BadAnswer, api.ServerError)):
        client.get("J0")


def test_redirects_are_not_followed(client: Any, server: Server) -> None:
    server.faults = [lambda handler: handler.answer(302, b"", Location="http://127.0.0.1:1/")]
    with pytest.raises(api.BadAnswer):
        client.status()


def test_an_answer_that_is_too_large(server: Server) -> None:
    for kind in KINDS:
        with make(kind, server.url, timeout=0.5, max_answer=1000) as client:
            assert client.run("p", b"x" * 1000) == b"X" * 1000
            with pytest.raises(api.Lost) as caught:
                client.run_ephemeral("p", b"x" * 1001)
            assert "max_answer" in str(caught.value)


def test_slow_answers(server: Server) -> None:
    for kind in KINDS:
        with make(kind, server.url, timeout=0.2) as client:
            for call, error in ((client.status, api.Unreachable), (lambda: client.enqueue("p"), api.Unconfirmed),
                                (lambda: client.run_ephemeral("p", wait=0.2), api.Lost)):
                server.faults = [slow]
                with pytest.raises(error) as caught:
                    call()
                assert "no answer within" in str(caught.value)
                assert server.gone.wait(PATIENCE)  # the connection was closed
                server.gone.clear()


def test_an_answer_before_the_request_is_written() -> None:
    """As a server does that refuses a payload by its length: it answers, reads no more and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in KINDS:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                body = json.dumps({"cause": "too-large", "detail": "at most 1 MiB"}).encode()
                peer.sendall(b"HTTP/1.1 413 X\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
                             b"Connection: close\r\n\r\n%s" % (len(body), body))
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(1 << 16):
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    for kind in KINDS:
        with make(kind, f"http://127.0.0.1:{listener.getsockname()[1]}") as one, pytest.raises(api.TooLarge) as caught:
            one.enqueue("p", b"x" * (24 << 20))
        assert "1 MiB" in str(caught.value)
    thread.join()
    listener.close()


def at_rest(client: Any) -> Any:
    """The connection of a client that is not in use; its event loop has turned."""
    if isinstance(client, Ordinary):
        client.loop.run_until_complete(asyncio.sleep(0.001))
        return client.inner._idle[-1]
    return client._idle[-1]


def test_a_connection_that_was_closed_at_rest(client: Any, server: Server) -> None:
    """It is seen before the request is written, so that even a submit without a key is not in doubt."""
    def last(handler: Handler) -> None:
        handler.close_connection = True  # without saying so
        handler.route()
        handler.server.gone.set()

    for _ in range(10):
        server.faults = [last]
        client.status()
        assert server.gone.wait(PATIENCE)
        server.gone.clear()
        until = time.monotonic() + PATIENCE
        while not at_rest(client).stale:  # the end of the connection is on its way
            assert time.monotonic() < until
        assert client.enqueue("p").id


def test_a_server_that_starts_again() -> None:
    for kind in KINDS:
        with Server() as first:
            port = first.server_address[1]
            client = make(kind, first.url, timeout=5.0)
            client.__enter__()
            client.status()
        begun = threading.Event()
        second: List[Server] = []

        def start() -> None:
            begun.wait(0.3)
            second.append(Server(port).__enter__())

        thread = threading.Thread(target=start)
        thread.start()
        assert client.run("p", b"x") == b"X"
        thread.join()
        client.__exit__(None, None, None)
        second[0].__exit__()


def test_events_go_on_after_a_break(client: Any, server: Server) -> None:
    def some(first: int, last: int) -> Fault:
        def fault(handler: Handler) -> None:
            assert handler.headers.get("Last-Event-ID", "") == ("" if first == 1 else f"1.{first - 1}")
            text = "".join(f"id: 1.{i}\nevent: progress\ndata: {{\"fraction\": {i}}}\n\n" for i in range(first, last + 1))
            handler.chunked(200, [text[:7].encode(), text[7:].encode(), f"id: 1.{last + 1}\nevent: progress\n".encode()],
                            "text/event-stream")
        return fault

    job = client.enqueue("p")
    server.faults = [some(1, 1), cut, busy(503, "closed"), some(2, 3), cut_after(HEAD), proxy(502)]
    events = list(job.follow())
    assert [event.progress.fraction for event in events[:3]] == [1.0, 2.0, 3.0]
    assert [event.id for event in events] == ["1.1", "1.2", "1.3", "1.5"]
    server.faults = [lambda handler: handler.chunked(200, [b"event: end\ndata: 5\n\n"], "text/event-stream")]
    with pytest.raises(api.BadAnswer):
        list(job.follow())


def test_a_stream_that_is_left(client: Any, server: Server) -> None:
    def endless(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: state\ndata: {}\n\n")
        try:
            while handler.connection.recv(1):
                pass
        except ConnectionError:
            pass
        handler.server.gone.set()
        handler.close_connection = True

    server.faults = [endless]
    events = iter(client.follow("J"))
    assert next(events).kind == "state"
    events.close()
    assert server.gone.wait(PATIENCE)


def test_bulk_that_breaks(client: Any, server: Server) -> None:
    """What was answered counts; of the rest, what has a key is sent again."""
    def half(handler: Handler) -> None:
        lines = handler.body.splitlines()
        ids = [handler.server.add("p", json.loads(line), b"")[0].id for line in lines[:4]]
        answer = b"".join(json.dumps({"id": id, "state": "queued"}).encode() + b"\n" for id in ids[:2]) + b'{"id":"J2"'
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(answer), answer))
        handler.cut()

    given = [b"", b"", {"key": "a"}, b"", {"key": "b"}, {"key": "c"}]
    server.faults = [half]
    found = list(client.enqueue_many("p", given))
    assert [getattr(one, "id", "") or type(one).__name__ for one in found] == ["J0", "J1", "J2", "Unconfirmed", "J4", "J5"]
    assert found[2].existing and not found[4].existing
    server.faults = [lambda handler: handler.answer(200, b"nonsense\n[]\n{}\n")]
    assert [type(one) for one in client.enqueue_many("p", [b""] * 4)] == [api.BadAnswer] * 3 + [api.Unconfirmed]
    server.faults = [lambda handler: handler.problem(403, "forbidden", "not you")]
    with pytest.raises(api.Forbidden):
        list(client.enqueue_many("p", [b""]))


def test_long_waits_are_continued(client: Any, server: Server, monkeypatch: Any) -> None:
    def end(handler: Handler) -> None:
        handler.server.jobs["J0"].end()
        handler.route()

    monkeypatch.setattr(_client_calls, "SLICE", 0.02)
    server.faults = [None, None, None, end]
    assert client.run("p", b"x", task="slow") == b"X"
    assert [seen.query["wait"] for seen in server.seen] == ["0.02s"] * 4


def test_a_server_that_answers_at_once_is_not_stormed(client: Any, server: Server) -> None:
    """One that stops gives its waiters back at once; they come again, but not in a storm."""
    job = client.enqueue("p", task="slow")
    server.wait_most = 0.0
    with pytest.raises(api.NotEnded):
        job.result(0.5)
    assert len(server.seen) < 12
