"""A host for tests: starts a worker with pipes and shared memory, and speaks with it frame by frame."""

from __future__ import annotations

import mmap
import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parent.parent.parent / "protocol" / "vectors"
HEADER = struct.Struct("<IBBHII")
PAGE = 4096
PATIENCE = 20.0

HELLO, TASK, RESULT, ERROR, RETURNED, CANCEL = 1, 2, 3, 4, 5, 6
STARTED, PROGRESS, LOG, PING, DRAIN, CHUNK = 7, 8, 9, 10, 11, 12
ARENA, META, TIMEOUT, ACK, FINAL = 1, 2, 4, 8, 16


class Frame(NamedTuple):
    kind: int
    flags: int
    code: int
    id: int
    aux: int
    body: bytes

    @property
    def pairs(self) -> Dict[str, str]:
        return {k: v.decode() for k, v in read_pairs(self.body)}


def pairs_of(pairs: Iterable[Tuple[str, bytes]]) -> bytes:
    listed = list(pairs)
    out = struct.pack("<H", len(listed))
    for key, value in listed:
        name = key.encode()
        out += struct.pack("<H", len(name)) + name + struct.pack("<I", len(value)) + value
    return out


def read_pairs(body: bytes) -> List[Tuple[str, bytes]]:
    """Read pairs in the plainest way, apart from the code under test."""
    (count,), at, found = struct.unpack_from("<H", body), 2, []
    for _ in range(count):
        n = struct.unpack_from("<H", body, at)[0]
        key = body[at + 2:at + 2 + n].decode()
        at += 2 + n
        n = struct.unpack_from("<I", body, at)[0]
        found.append((key, body[at + 4:at + 4 + n]))
        at += 4 + n
    assert at == len(body)
    return found


def frame(kind: int, number: int = 0, body: bytes = b"", code: int = 0, flags: int = 0, aux: int = 0) -> bytes:
    return HEADER.pack(len(body), kind, flags, code, number, aux) + body


class Host:
    """One worker process, from its start to its end."""

    def __init__(self, argv: List[str], mem: int = 0, hello: Optional[Dict[str, str]] = None,
                 greet: bool = True, stdio: bool = False, cwd: Optional[str] = None) -> None:
        r_in, self.w = os.pipe()
        self.r, w_out = os.pipe()
        fds = [r_in, w_out]
        variable = "v1,in=0,out=1" if stdio else f"v1,in={r_in},out={w_out}"
        self.memory: Optional[mmap.mmap] = None
        if mem:
            fd = os.memfd_create("bullpen-test")
            os.ftruncate(fd, PAGE + 2 * mem)
            self.memory = mmap.mmap(fd, PAGE + 2 * mem)
            self.words = memoryview(self.memory)[:PAGE].cast("I")
            self.longs = memoryview(self.memory)[:PAGE].cast("Q")
            self.words[0] = 0x31504C42
            fds.append(fd)
            variable += f",mem={fd}"
        self.arena = mem
        env = dict(os.environ, BULLPEN_WORKER=variable + ",future=7", PYTHONPATH=str(HERE.parent))
        self.process = subprocess.Popen(
            [sys.executable] + argv, env=env, pass_fds=() if stdio else fds, cwd=cwd,
            stdin=r_in if stdio else subprocess.DEVNULL, stdout=w_out if stdio else subprocess.PIPE,
            stderr=subprocess.PIPE)
        for fd in fds:
            os.close(fd)
        self.buffer = b""
        self.number = 0
        self.hello: Dict[str, str] = {}
        if greet:
            pairs = dict(hello or {}, worker="w1", pid=str(self.process.pid))
            pairs.setdefault("output", "0")
            if mem:
                pairs["arena.request"] = f"{PAGE} {mem}"
                pairs["arena.reply"] = f"{PAGE + mem} {mem}"
            self.send(frame(HELLO, body=pairs_of((k, v.encode()) for k, v in pairs.items()), code=1))
            got = self.expect(HELLO)
            self.hello = got.pairs

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.w, view):]

    def next_task(self, code: int, payload: bytes = b"", flags: int = 0, aux: int = 0,
                  meta: Optional[Dict[str, str]] = None) -> bytes:
        """The bytes of the next TASK; its number is self.number then."""
        self.number = self.number + 1 & 0xFFFFFFFF or 1
        if meta is not None:
            flags |= META
            payload = pairs_of((k, v.encode()) for k, v in meta.items()) + payload
        return frame(TASK, self.number, payload, code, flags, aux)

    def task(self, code: int, payload: bytes = b"", **rest: object) -> int:
        self.send(self.next_task(code, payload, **rest))  # type: ignore[arg-type]
        return self.number

    def read(self, patience: float = PATIENCE) -> Optional[Frame]:
        """The next frame, None at the end of file."""
        until = time.monotonic() + patience
        while True:
            if len(self.buffer) >= 16:
                length, kind, flags, code, number, aux = HEADER.unpack_from(self.buffer)
                if len(self.buffer) >= 16 + length:
                    body = self.buffer[16:16 + length]
                    self.buffer = self.buffer[16 + length:]
                    return Frame(kind, flags, code, number, aux, body)
            ready, _, _ = select.select([self.r], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise AssertionError(f"no frame within {patience} s; so far {self.buffer!r}")
            data = os.read(self.r, 1 << 20)
            if not data:
                assert not self.buffer, f"half a frame at the end: {self.buffer[:64]!r}"
                return None
            self.buffer += data

    def expect(self, kind: int, number: Optional[int] = None, skip: Iterable[int] = ()) -> Frame:
        while True:
            got = self.read()
            assert got is not None, f"end of file; standard error: {self.errors()}"
            if got.kind == kind or got.kind not in skip:
                break
        assert got.kind == kind, got
        assert number is None or got.id == number, got
        return got

    def result(self, number: Optional[int] = None) -> bytes:
        """The result of the next answer, wherever it travels; LOG and PROGRESS are skipped."""
        got = self.expect(RESULT, number, skip=(LOG, PROGRESS))
        if not got.flags & ARENA:
            return got.body
        offset, length, taken = struct.unpack("<QQQ", got.body)
        assert self.memory is not None
        assert PAGE + self.arena <= offset and offset + length <= PAGE + 2 * self.arena
        data = self.memory[offset:offset + length]
        self.longs[18] = taken
        return data

    def place(self, payload: bytes, offset: int = 0) -> bytes:
        """Put a payload into the request part; the reference to it."""
        assert self.memory is not None
        self.memory[PAGE + offset:PAGE + offset + len(payload)] = payload
        return struct.pack("<QQ", PAGE + offset, len(payload))

    def ask(self, number: int, reason: int) -> None:
        self.words[34] = reason
        self.words[33] = number
        self.process.send_signal(int(self.hello["caps"].split("ask=")[1].split()[0]))

    def close_input(self) -> None:
        if self.w >= 0:
            os.close(self.w)
            self.w = -1

    def errors(self) -> str:
        self.close_input()
        _, err = self.process.communicate(timeout=PATIENCE)
        return err.decode()

    def end(self) -> Tuple[int, str, str]:
        """Close `in`; exit status, standard output and standard error."""
        self.close_input()
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out or b"").decode(), err.decode()

    def kill(self) -> None:
        self.close_input()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()
        if self.r >= 0:
            os.close(self.r)
            self.r = -1
