"""Walks protocol/vectors."""

from __future__ import annotations

import json
import random
from typing import Any, Dict, List

import pytest
from host import ERROR, HELLO, LOG, PROGRESS, RESULT, VECTORS, frame, pairs_of

from bullpen import _frames


def load(name: str) -> Dict[str, Any]:
    return json.loads((VECTORS / name).read_text())  # type: ignore[no-any-return]


FRAMES: List[Dict[str, Any]] = load("frames.json")["frames"]
MALFORMED = [s for s in load("malformed.json")["streams"] if s["to"] == "worker"]
SESSIONS: List[Dict[str, Any]] = load("sessions.json")["sessions"]
GOOD_HELLO = frame(HELLO, body=pairs_of([("worker", b"w1"), ("output", b"0")]), code=1)


def named(rows: List[Dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


@named(FRAMES)
def test_frame(row: Dict[str, Any]) -> None:
    raw, body = bytes.fromhex(row["hex"]), bytes.fromhex(row["body"])
    length, kind, flags, code, number, aux = _frames.HEADER.unpack_from(raw)
    assert (kind, flags, code, number, aux) == (row["kind"], row["flags"], row["code"], row["id"], row["aux"])
    assert raw[16:16 + length] == raw[16:] == body
    assert _frames.frame(kind, number, body, code, flags, aux) == raw
    if "pairs" in row:
        pairs, at = _frames.parse_pairs(raw, 16, len(raw))
        assert [[k, v.decode()] for k, v in pairs] == row["pairs"]
        rest = bytes.fromhex(row.get("payload", ""))
        assert raw[at:] == rest
        assert _frames.encode_pairs(pairs) + rest == body


def test_outcomes() -> None:
    words = {row["word"]: row["number"] for row in load("failures.json")["outcomes"] if row["worker_sends"]}
    assert words == {"failed": _frames.FAILED, "panic": _frames.PANIC, "timeout": _frames.TIMED_OUT,
                     "canceled": _frames.CANCELED, "output": _frames.OUTPUT}


@named(MALFORMED)
def test_malformed(row: Dict[str, Any], start: Any) -> None:
    host = start(greet=False)
    try:
        host.send((b"" if row.get("first") else GOOD_HELLO) + bytes.fromhex(row["hex"]))
    except BrokenPipeError:
        pass
    host.close_input()
    while host.read() is not None:
        pass
    status, _, err = host.end()
    assert status == 3, err
    assert err.startswith("bullpen: protocol: ") and err.count("\n") == 1, err


@named(SESSIONS)
def test_session(row: Dict[str, Any], start: Any) -> None:
    walk(row, start(greet=False))


def walk(row: Dict[str, Any], host: Any) -> None:
    for step in row["steps"]:
        if "send" in step:
            host.send(bytes.fromhex(step["send"]))
        elif "close" in step:
            host.close_input()
        elif "exit" in step:
            assert host.read() is None
            # Only `close` closes: a drained worker ends while `in` is open.
            assert host.process.wait(20) == step["exit"], host.errors()
        else:
            want = step["expect"]
            got = host.read()
            while got is not None and got.kind in (LOG, PROGRESS) and want["kind"] != got.kind:
                got = host.read()
            assert got is not None
            assert (got.kind, got.code, got.flags, got.id) == (want["kind"], want["code"], want["flags"], want["id"])
            if "aux" in want and got.kind not in (RESULT, ERROR):
                assert got.aux == want["aux"]
            if "pairs" in want:
                assert want["pairs"].items() <= got.pairs.items()
            elif "body" in want:
                assert got.body == bytes.fromhex(want["body"])


def test_mutations_never_surprise_the_decoder() -> None:
    """Whatever bytes come, pairs are read or refused as Invalid, inside of their bounds."""
    rng = random.Random(20261120)
    bodies = [bytes.fromhex(row["body"]) for row in FRAMES if "pairs" in row]
    bodies += [bytes.fromhex(row["hex"])[16:] for row in MALFORMED]
    read = refused = 0
    for _ in range(20000):
        body = bytearray(rng.choice(bodies))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(body) + 1)
            change = rng.randrange(3)
            if change == 0:
                body[at:at + 1] = bytes([rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))])
            elif change == 1:
                del body[at:at + rng.randint(1, 4)]
            else:
                body[at:at] = rng.randbytes(rng.randint(1, 4)) if hasattr(rng, "randbytes") else b"\x01\x00"
        guard = b"\xee" * 8
        try:
            pairs, end = _frames.parse_pairs(memoryview(guard + body + guard), 8, 8 + len(body))
        except _frames.Invalid:
            refused += 1
            continue
        read += 1
        assert 8 <= end <= 8 + len(body)
        assert all(key for key, _ in pairs)
        assert _frames.encode_pairs(pairs) == bytes(body[:end - 8])
    assert read > 100 and refused > 100


def test_mutated_streams_end_the_worker_in_order(start: Any) -> None:
    """A worker given damaged bytes exits with 0 or 3, and says why in one line."""
    rng = random.Random(7)
    good = b"".join(bytes.fromhex(row["hex"]) for row in FRAMES if row["name"] in (
        "task", "task with pairs", "task with a limit of 1.5 s", "ping", "cancel: timeout", "task with pairs and no payload"))
    for _ in range(40):
        stream = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            stream[rng.randrange(len(stream))] = rng.randrange(256)
        host = start(greet=False)
        try:
            host.send(GOOD_HELLO + stream)
        except BrokenPipeError:
            pass
        host.close_input()
        while host.read() is not None:
            pass
        status, _, err = host.end()
        assert (status, err) == (0, "") or (status == 3 and err.count("\n") == 1), (stream.hex(), status, err)
        host.kill()
