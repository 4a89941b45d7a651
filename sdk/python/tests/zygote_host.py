"""The host's side of the fork server of Python workers."""

from __future__ import annotations

import array
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import pytest
from host import PATIENCE

PROCESS = Path(__file__).resolve().parents[3] / "process"
SDK = Path(__file__).resolve().parents[1]
READY, FAILED, FORKED, STARTED, REFUSED = 1, 2, 3, 4, 5
LOADER = ("import os;exec(compile(os.pread(3,1<<20,0),'<bullpen zygote>','exec'),"
          "{'__name__':'bullpen_zygote','__file__':'<bullpen zygote>'})")

needs_zygote = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(os, "pidfd_open") or not PROCESS.is_dir(),
    reason="the fork server is for Linux, and stands in the whole checkout")


class End(NamedTuple):
    code: int  # negative: a signal
    out: str
    err: str


class Zygote:
    """A fork server and the host's side of it."""

    def __init__(self, worker: str = "-c", modules: Sequence[str] = (), options: Sequence[str] = ("-S",),
                 env: Optional[Dict[str, str]] = None, cwd: Optional[Path] = None) -> None:
        self.options = list(options)
        self.cwd = cwd
        self.number = 0
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        memory = os.memfd_create("zygote")
        for name in ("zygote_worker.py", "zygote.py"):
            os.write(memory, (PROCESS / name).read_bytes() + b"\n\n")
        variables = dict(os.environ if env is None else env)
        variables["BULLPEN_ZYGOTE"] = f"v1,fd={theirs.fileno()},name=zygote-test"
        # Descriptor 3 is made by a shell: whatever has it here stays as it is.
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{memory}', "bash", sys.executable, *options, "-c", LOADER, worker, *modules],
            env=variables, cwd=cwd, pass_fds=(theirs.fileno(), memory), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        os.close(memory)
        theirs.close()
        kind, _, self.text, _ = self.receive()
        self.ready = kind == READY

    def receive(self) -> Tuple[int, int, str, List[int]]:
        data, ancillary, _, _ = self.socket.recvmsg(64 << 10, 64)
        fds = array.array("i")
        for _, _, part in ancillary:
            fds.frombytes(part)
        _, kind, _, number = struct.unpack_from("<BBHI", data)
        return kind, number, data[8:].decode(), list(fds)

    def start(self, args: Sequence[str], files: Sequence[int], env: Optional[Dict[str, str]] = None,
              folder: str = "") -> int:
        """Fork a worker; its pidfd."""
        self.number += 1

        def text(data: bytes) -> bytes:
            return struct.pack("<I", len(data)) + data

        variables = [f"{k}={v}" for k, v in (dict(os.environ) if env is None else env).items()]
        body = text(os.fsencode(folder or self.cwd or os.getcwd())) + text(b"") + text(b"")
        for words in (args, variables):
            body += struct.pack("<I", len(words)) + b"".join(text(os.fsencode(word)) for word in words)
        head = struct.pack("<BBHIHHHH", 1, 1, 2, self.number, len(files), 0, 0, 0)
        self.socket.sendmsg([head + body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
        kinds: Dict[int, str] = {}
        pidfds: List[int] = []
        while not ({FORKED, STARTED} <= kinds.keys() or {FORKED, REFUSED} <= kinds.keys()):
            kind, number, said, fds = self.receive()
            assert number == self.number
            kinds[kind] = said
            pidfds += fds
        os.close(pidfds.pop())
        if REFUSED in kinds:
            os.waitid(os.P_PIDFD, pidfds[0], os.WEXITED)
            os.close(pidfds[0])
            raise RuntimeError(kinds[REFUSED])
        return pidfds[0]

    def run(self, *args: str, **options: object) -> End:
        """Run a worker to its end."""
        null = os.open(os.devnull, os.O_RDWR)
        pipes = [os.pipe(), os.pipe()]
        pidfd = self.start(args, [null, pipes[0][1], pipes[1][1]], **options)  # type: ignore[arg-type]
        os.close(null)
        texts = ["", ""]
        for _, write in pipes:
            os.close(write)
        open_ends = {pipes[0][0]: 0, pipes[1][0]: 1}
        while open_ends:
            ready, _, _ = select.select(list(open_ends), [], [], PATIENCE)
            assert ready, texts
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if data:
                    texts[open_ends[fd]] += data.decode()
                else:
                    del open_ends[fd]
                    os.close(fd)
        return End(wait(pidfd), texts[0], texts[1])

    def exec(self, *args: str, **options: object) -> End:
        """What the same worker does when it is started and not forked."""
        done = subprocess.run([sys.executable, *self.options, *args], stdin=subprocess.DEVNULL, capture_output=True,
                              cwd=self.cwd, timeout=PATIENCE, text=True, env=dict(os.environ), **options)  # type: ignore[call-overload]
        return End(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        self.socket.close()
        self.process.communicate(timeout=PATIENCE)


def wait(pidfd: int) -> int:
    end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)
    assert end is not None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
