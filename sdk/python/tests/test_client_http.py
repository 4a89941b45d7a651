"""Answers as bytes: right ones in any pieces, wrong ones, and nonsense."""

from __future__ import annotations

import random
from typing import Any, List, Optional, Tuple

import pytest
from bullpen import _client_answers as answers
from bullpen import client as api
from bullpen._http import MAX_HEAD, Answer, Malformed, Parser, Request, parse_url, write_head

SEED = 20260131

GOOD: List[Tuple[str, bytes, int, bytes, bool, bool]] = [
    # name, bytes, status, body, whether the connection can be used again, whether it must be closed for the end
    ("length", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", True, False),
    ("empty", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"", True, False),
    ("no reason", b"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 404, b"", True, False),
    ("204", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, False),
    ("same length twice", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 200, b"a", True, False),
    ("interim", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
     200, b"a", True, False),
    ("close", b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\na", 200, b"a", False, False),
    ("old", b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, b"a", False, False),
    ("old, kept", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", 200, b"a", True, False),
    ("until closed", b"HTTP/1.1 200 OK\r\n\r\nabc", 200, b"abc", False, True),
    ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\nA \r\n0123456789\r\n0\r\n\r\n",
     200, b"ab0123456789", True, False),
    ("trailer", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\n", 200, b"a", True, False),
    ("odd headers", b"HTTP/1.1 200 OK\r\nX:\t a:b \r\nx: c\r\nEmpty:\r\nContent-Length:1\r\n\r\na", 200, b"a", True, False),
]


def parse(data: bytes, sizes: Optional[List[int]] = None, limit: int = 1 << 20, close: bool = False) -> Parser:
    parser = Parser(limit)
    at = 0
    for size in sizes or [len(data)]:
        if at < len(data):
            parser.feed(data[at:at + size])
        at += size
    if close:
        parser.feed(b"")
    return parser


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case[0])
def test_good_answers_in_pieces(case: Tuple[str, bytes, int, bytes, bool, bool]) -> None:
    _, data, status, body, reusable, close = case
    for size in (1, 2, 3, 7, len(data)):
        parser = parse(data, [size] * len(data), close=close)
        assert (parser.complete, parser.reusable, parser.answer()) == (True, reusable, Answer(status, parser.headers, body))
    for cut in range(len(data)):
        if close and cut > data.index(b"\r\n\r\n") + 3:
            continue
        parser = parse(data[:cut])
        assert not parser.complete
        with pytest.raises(Malformed):
            parser.feed(b"")
    if not close:
        parser = parse(data + b"x")  # more than was asked for
        assert parser.complete and not parser.reusable and parser.answer().body == body
        parser = parse(data)
        parser.feed(b"")
        assert parser.complete and not parser.reusable


def test_headers() -> None:
    assert parse(GOOD[-1][1]).headers == {"x": "a:b, c", "empty": "", "content-length": "1"}


BAD = {
    "status line": b"HTTP/2 200 OK\r\n\r\n", "status": b"HTTP/1.1 999 OK\r\n\r\n", "other protocol": b"HTTP/1.1 101 X\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nabc\r\n\r\n", "space in name": b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", "name with space": b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "long length": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "head": b"HTTP/1.1 200 OK\r\nA: " + b"x" * MAX_HEAD, "endless interim head": b"HTTP/1.1 100 X\r\n\r\n" + b"y" * (MAX_HEAD + 1),
    "chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
    "negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "large chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    "many chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"80000\r\n" + b"x" * 0x80000 + b"\r\n80001\r\n",
    "chunk line": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 300,
    "long chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 12000,
    "until closed, large": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * ((1 << 20) + 1),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_answers(name: str) -> None:
    with pytest.raises(Malformed):
        parse(BAD[name])


def test_a_stream_is_not_bounded_as_a_whole() -> None:
    parser = Parser(1000)
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        parser.feed(b"1f4\r\n" + b"x" * 500 + b"\r\n")
        assert parser.take() == b"x" * 500


def test_random_answers() -> None:
    """No bytes, in no pieces, make it fail otherwise than by saying so, or hold more than it may."""
    source = random.Random(SEED)
    words = [case[1] for case in GOOD] + [data[:200] for data in BAD.values()]
    for _ in range(4000):
        data = bytearray(source.choice(words) + source.choice(words))
        for _ in range(source.randrange(6)):
            place = source.randrange(len(data))
            data[place:place + source.randrange(4)] = source.choice(
                [b"", b"\r\n", b":", b"\0", b"9" * 30, b"chunked", bytes([source.randrange(256)])])
        parser = Parser(300)
        try:
            while data:
                size = source.randrange(1, 40)
                parser.feed(bytes(data[:size]))
                assert parser._held <= 300
                del data[:size]
            parser.feed(b"")
            assert parser.complete
        except Malformed:
            pass


EVENTS = [
    (b"data: x\n\n", [("message", "", "x")]),
    (b"\xef\xbb\xbfdata:x\r\n\r\n", [("message", "", "x")]),
    (b"event: log\rid: 1.2\rdata: a\rdata: b\r\r:\n", [("log", "1.2", "a\nb")]),
    (b": comment\nid: 7\n\ndata\n\n", [("message", "7", "")]),
    (b"id: 1\ndata: a\n\nid: bad\0\ndata: b\n\nunknown: 1\nretry: 50\nevent: e\n\ndata: c\n\n",
     [("message", "1", "a"), ("message", "1", "b"), ("message", "1", "c")]),
    (b"data: cut", []),
]


@pytest.mark.parametrize("data,want", EVENTS)
def test_events_in_pieces(data: bytes, want: List[Tuple[str, str, str]]) -> None:
    for size in range(1, len(data) + 1):
        parser = answers.Events(1000)
        found = []
        for at in range(0, len(data), size):
            found += parser.feed(data[at:at + size])
        assert found == want


def test_an_id_counts_with_its_event() -> None:
    parser = answers.Events(1000)
    parser.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert parser.last == "1"  # of 2 nothing was handed on yet
    parser.feed(b"\nretry: 99999999999999\n")
    assert (parser.last, parser.retry) == ("2", 30.0)


def test_events_are_bounded() -> None:
    for piece in (b"data: xxxxxxxxxx\n", b"x" * 20):
        parser = answers.Events(1000)
        with pytest.raises(api.BadAnswer):
            for _ in range(200):
                parser.feed(piece)


def test_random_events() -> None:
    source = random.Random(SEED)
    parts = [b"\n", b"\r", b"\r\n", b"data: {}", b"data: ", b"id: 1", b"event: log", b":", b"\xff", b"retry: 1", b"\0", b"\xef\xbb\xbf"]
    for _ in range(2000):
        data = b"".join(source.choice(parts) for _ in range(source.randrange(30)))
        whole = answers.Events(10000).feed(data + b"\n")
        parser, found = answers.Events(10000), []
        for at in range(len(data)):
            found += parser.feed(data[at:at + 1])
        found += parser.feed(b"\n")
        assert found == whole


def nonsense(source: random.Random, depth: int = 0) -> Any:
    kind = source.randrange(9 if depth < 3 else 7)
    if kind < 7:
        return [None, True, 0, -1.5, "", "2026-01-31T08:00:00Z", 10 ** 400][kind]
    if kind == 7:
        return [nonsense(source, depth + 1) for _ in range(source.randrange(3))]
    keys = ["id", "state", "time", "text", "outcome", "failure", "cause", "detail", "x"]
    return {source.choice(keys): nonsense(source, depth + 1) for _ in range(source.randrange(5))}


def test_random_objects() -> None:
    """Jobs, pools, refs and problems of any shape are read, or refused as BadAnswer."""
    source = random.Random(SEED)
    fields = (*answers.JobInfo._fields, *answers.PoolInfo._fields, "existing", "cause", "detail", "outcome", "failure", "faults",
              "status", "job")
    good = {"id": "J", "state": "done", "name": "p"}
    read = 0
    for _ in range(4000):
        data = {**good, **{source.choice(fields): nonsense(source) for _ in range(source.randrange(4))}}
        for make in (answers.job, answers.pool, answers.ref):
            try:
                make(data)
                read += 1
            except api.BadAnswer:
                pass
        assert isinstance(answers.problem(data), api.ClientError)
        for kind in ("state", "progress", "log", "end", "other"):
            try:
                answers.event(kind, "1", str(data))
            except api.BadAnswer:
                pass
    assert read > 1000


@pytest.mark.parametrize("text,want", [
    ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00+00:00"),
    ("2026-01-31t08:00:00.5z", "2026-01-31T08:00:00.500000+00:00"),
    ("2026-01-31T08:00:00.123456789+01:30", "2026-01-31T06:30:00.123456+00:00"),
    ("2026-01-31T08:00:00-00:30", "2026-01-31T08:30:00+00:00"),
])
def test_times(text: str, want: str) -> None:
    found = answers.moment({"at": text}, "at")
    assert found is not None and found.isoformat() == want


@pytest.mark.parametrize("text", ["x", "2026-01-31", "2026-01-31T08:00:00", "2026-02-31T08:00:00Z", "2026-01-31T08:00:00+99:00:1",
                                  "0001-01-01T00:00:00+23:59"])
def test_no_times(text: str) -> None:
    with pytest.raises(api.BadAnswer):
        answers.moment({"at": text}, "at")


def test_heads() -> None:
    target = parse_url("https://[::1]:8650/base/")
    assert (target.secure, target.host, target.port, str(target)) == (True, "::1", 8650, "https://[::1]:8650/base")
    assert write_head(Request("GET", "/v1/jobs"), target) == b"GET /base/v1/jobs HTTP/1.1\r\nHost: [::1]:8650\r\n\r\n"
    assert write_head(Request("POST", "/x", (("A", "b"),)), target).endswith(b"\r\nA: b\r\nContent-Length: 0\r\n\r\n")
    for value in ("a\r\nX: y", "\u00e4", "a\0"):
        with pytest.raises(ValueError):
            write_head(Request("GET", "/x", (("A", value),)), target)


def test_errors_can_be_pickled() -> None:
    import pickle

    for name in api.__all__:
        kind = getattr(api, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            error = kind("why", id="J", status=5)
            error.extra = 1
            again = pickle.loads(pickle.dumps(error))
            assert (str(again), again.id, again.status, again.extra) == ("why", "J", 5, 1)
            assert kind.__module__ == "bullpen.client" and kind.__doc__
