"""Codec of the worker protocol: headers, pairs, numbers. See protocol/SPEC.md."""

from __future__ import annotations

import struct
from typing import Dict, Iterable, List, Tuple, Union

VERSION = 1
HEADER = struct.Struct("<IBBHII")  # length, kind, flags, code, id, aux
HEADER_SIZE = 16
MAX_FRAME = 64 << 20
ARENA_MIN = 32 << 10
MAX_LOG = 8192
MAX_CHUNK = 1 << 20
MAX_CONCURRENCY = 960
MAX_U32 = 0xFFFFFFFF
FLUSH_AT = 64 << 10  # bytes of answers that are worth a write of their own

HELLO, TASK, RESULT, ERROR, RETURNED, CANCEL = 1, 2, 3, 4, 5, 6
STARTED, PROGRESS, LOG, PING, DRAIN, CHUNK = 7, 8, 9, 10, 11, 12
KINDS = ("", "HELLO", "TASK", "RESULT", "ERROR", "RETURNED", "CANCEL",
         "STARTED", "PROGRESS", "LOG", "PING", "DRAIN", "CHUNK")

ARENA, META, TIMEOUT, ACK, FINAL = 0x01, 0x02, 0x04, 0x08, 0x10

# Outcomes of ERROR that a worker sends; the source is vectors/failures.json.
FAILED, PANIC, TIMED_OUT, CANCELED, OUTPUT = 1, 2, 3, 4, 7

LEVEL_ZERO = 32768
INFO = 20  # as `logging` counts; what LEVEL_ZERO stands for
STREAM_LOG, STREAM_STDOUT, STREAM_STDERR = 0, 1, 2

Buffer = Union[bytes, bytearray, memoryview]
Pairs = List[Tuple[str, bytes]]

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")


class Invalid(Exception):
    """The host broke the protocol; the worker says why and exits with status 3."""


def frame(kind: int, number: int = 0, body: Buffer = b"", code: int = 0, flags: int = 0, aux: int = 0) -> bytes:
    """One whole frame. The body is copied."""
    return HEADER.pack(len(body), kind, flags, code, number, aux) + body


def check_header(kind: int, length: int, limit: int = MAX_FRAME) -> None:
    """Say what is wrong with a frame of which only the header is here."""
    if not 0 < kind < len(KINDS):
        raise Invalid(f"frame of unknown kind {kind}")
    if length > limit:
        raise Invalid(f"{KINDS[kind]} frame of {length} bytes; the bound is {limit}")


def check_control(kind: int, code: int, length: int) -> None:
    """Check a frame from the host that is not a TASK."""
    check_header(kind, length)
    if kind == HELLO:
        raise Invalid("a second HELLO")
    if kind not in (CANCEL, PING, DRAIN):
        raise Invalid(f"{KINDS[kind]} goes from worker to host")
    if length:
        raise Invalid(f"{KINDS[kind]} has a body of {length} bytes; it has none")
    if kind == CANCEL and code not in (TIMED_OUT, CANCELED):
        raise Invalid(f"CANCEL with reason {code}")


def before(a: int, b: int) -> bool:
    """Whether task number a is before b; numbers wrap."""
    return 0 < ((b - a) & MAX_U32) < 0x80000000


def parse_pairs(data: Buffer, at: int, stop: int) -> Tuple[Pairs, int]:
    """Read the pairs at data[at:stop]; return them and where they end."""
    if stop - at < 2:
        raise Invalid("pairs are cut short: no count")
    count = _U16.unpack_from(data, at)[0]
    at += 2
    pairs: Pairs = []
    for i in range(1, count + 1):
        if stop - at < 2:
            raise Invalid(f"pair {i} of {count} is cut short")
        middle = at + 2 + _U16.unpack_from(data, at)[0]
        if stop - middle < 4:
            raise Invalid(f"the key of pair {i} of {count} is cut short")
        try:
            key = str(data[at + 2:middle], "utf-8")
        except UnicodeDecodeError:
            raise Invalid(f"the key of pair {i} of {count} is not UTF-8") from None
        if not key:
            raise Invalid("a pair has an empty key")
        at = middle + 4 + _U32.unpack_from(data, middle)[0]
        if at > stop:
            raise Invalid(f"the value of {key!r} is cut short")
        pairs.append((key, bytes(data[middle + 4:at])))
    return pairs, at


def parse_all_pairs(data: Buffer, at: int, stop: int) -> Dict[str, str]:
    """Read pairs that must fill data[at:stop]; of a key that stands twice the last one counts."""
    pairs, end = parse_pairs(data, at, stop)
    if end != stop:
        raise Invalid(f"{stop - end} bytes stand behind the pairs")
    return {key: value.decode("utf-8", "surrogateescape") for key, value in pairs}


def encode_pairs(pairs: Iterable[Tuple[str, Union[str, bytes]]]) -> bytes:
    """The bytes of pairs, in their order."""
    parts: List[bytes] = []
    count = 0
    for key, value in pairs:
        name = key.encode("utf-8")
        data = value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value
        parts += (_U16.pack(len(name)), name, _U32.pack(len(data)), data)
        count += 1
    return _U16.pack(count) + b"".join(parts)


def parse_number(name: str, value: str, limit: int = (1 << 63) - 1) -> int:
    """A value that is decimal digits and nothing else."""
    if not (value.isascii() and value.isdigit()):
        raise Invalid(f"{name} is not a number: {value[:40]!r}")
    # Long runs of digits are refused before they cost anything to convert.
    digits = value.lstrip("0") or "0"
    if len(digits) > 19 or int(digits) > limit:
        raise Invalid(f"{name} is too large: {value[:40]!r}")
    return int(digits)


def microseconds(nanoseconds: int) -> int:
    """Run time as aux has it: rounded up, the largest number for all that do not fit."""
    return min((nanoseconds + 999) // 1000, MAX_U32)


def cut_utf8(data: bytes, limit: int) -> bytes:
    """The first bytes of data, at most limit of them, not ending inside a character."""
    if len(data) <= limit:
        return data
    return data[:limit].decode("utf-8", "ignore").encode("utf-8")
