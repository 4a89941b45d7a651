"""The least that a Python worker can be: the same frames as pipeworker.

Frames are a length (u32, little-endian) and as many bytes. One large read, run
every complete frame, one write of all answers.
"""

import base64
import hashlib
import io
import os
import struct
import sys

HEAD = struct.Struct("<I")


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def serve(use_hash: bool) -> None:
    readinto = io.FileIO(0, "rb", closefd=False).readinto
    buf = bytearray(256 << 10)
    start = end = 0
    empty = HEAD.pack(0)
    while True:
        with memoryview(buf) as view, view[end:] as tail:
            n = readinto(tail)
        if not n:
            return
        end += n
        out = []
        need = HEAD.size
        with memoryview(buf) as view:
            while end - start >= HEAD.size:
                need = HEAD.size + HEAD.unpack_from(buf, start)[0]
                if end - start < need:
                    break
                if use_hash:
                    with view[start + HEAD.size:start + need] as payload:
                        reply = base64.b64encode(hashlib.sha512(payload).digest())
                    out.append(HEAD.pack(len(reply)))
                    out.append(reply)
                else:
                    out.append(empty)
                start += need
                need = HEAD.size
        if out:
            write_all(1, b"".join(out))
        if start == end:
            start = end = 0
        elif len(buf) - start < need or len(buf) == end:
            rest = bytes(buf[start:end])
            if len(buf) < need:
                buf = bytearray(2 * need)
            buf[:len(rest)] = rest
            start, end = 0, len(rest)


serve(len(sys.argv) > 1 and sys.argv[1] == "hash")
