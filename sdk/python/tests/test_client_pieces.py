"""Results that stream, for both clients."""

from __future__ import annotations

from typing import Any, Iterator, List

import pytest
from bullpen import client as api
from client_kinds import KINDS, make
from fake_server import Handler, Server, slow


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


@pytest.fixture(params=KINDS)
def client(request: Any, server: Server) -> Iterator[Any]:
    with make(request.param, server.url, timeout=5.0) as one:
        yield one


def test_pieces(client: Any, server: Server) -> None:
    assert list(client.stream("p", b"abc", task="upper", id="mine", timeout=2, meta={"a": "b"})) == [b"A", b"BC"]
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/pools/p/run", b"abc")
    assert seen.query == {"task": "upper", "id": "mine", "timeout": "2s", "chunks": "true"}
    assert (seen.headers["accept"], seen.headers["bullpen-meta"]) == ("text/event-stream", "a=b")


def test_whole(client: Any) -> None:
    assert list(client.stream("p", b"abc", task="whole")) == [b"ABC"]
    assert list(client.stream("p", b"", task="whole")) == []
    large = b"x" * (12 << 20)
    assert b"".join(client.stream("p", large, task="whole")) == large.upper()


def collect(pieces: Any, into: List[bytes]) -> None:
    for piece in pieces:
        into.append(piece)


@pytest.mark.parametrize("task,kind,seen", [
    ("fail", api.JobFailed, []), ("unknown", api.UnknownTask, []), ("refused", api.Refused, []),
    ("midway", api.JobFailed, [b"A", b"BC"]), ("breaks", api.Lost, [b"A", b"BC"]),
    ("odd", api.BadAnswer, [b"A", b"BC"]), ("list", api.BadAnswer, [b"A", b"BC"]),
])
def test_failures(client: Any, task: str, kind: Any, seen: List[bytes]) -> None:
    got: List[bytes] = []
    with pytest.raises(kind) as caught:
        collect(client.stream("p", b"abc", task=task), got)
    assert got == seen
    if kind is api.JobFailed:
        assert (caught.value.outcome, caught.value.message) == ("failed", "no")
    assert list(client.stream("p", b"abc")) == [b"A", b"BC"]


def test_options(client: Any) -> None:
    with pytest.raises(api.BadRequest):
        list(client.stream("p", attempts=3))


def test_what_never_started_is_tried_again(client: Any, server: Server) -> None:
    def full(handler: Handler) -> None:
        handler.problem(429, "overloaded", "full", after="0")

    server.faults = [full]
    assert list(client.stream("p", b"abc")) == [b"A", b"BC"]
    assert len(server.seen) == 2


def test_a_broken_connection_is_not_repeated(client: Any, server: Server) -> None:
    server.faults = [Handler.cut]
    with pytest.raises(api.Lost):
        list(client.stream("p", b"abc"))
    assert len(server.seen) == 1


def test_leaving_closes_the_connection(client: Any, server: Server) -> None:
    def begin(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b'event: chunk\ndata: {"payload_base64": "YQ=="}\n\n')
        slow(handler)

    server.faults = [begin]
    pieces = client.stream("p", b"abc")
    assert next(pieces) == b"a"
    pieces.close()
    assert server.gone.wait(10)
