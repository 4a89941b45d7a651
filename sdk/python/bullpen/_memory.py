"""The shared memory of one worker life: the page and the arena of SPEC.md section 6."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
from typing import Any, NamedTuple, Optional

from . import _frames
from ._frames import Invalid

PAGE_SIZE = 4096
MAGIC = 0x31504C42

# Places of the page as indexes of u32 words.
STARTED, FINISHED, RECALL, ASKED, REASON, RUNNING = 16, 17, 32, 33, 34, 64
_FREED = 18  # as an index of u64 words

REQUEST_REFERENCE = struct.Struct("<QQ")
REPLY_REFERENCE = struct.Struct("<QQQ")

# A release followed by an acquire of the same lock is a full barrier on every
# processor; the acquire alone is one on x86, where it is a locked instruction.
_MACHINE = os.uname().machine if hasattr(os, "uname") else ""
NEEDS_SECOND_FENCE = _MACHINE not in ("x86_64", "amd64", "i386", "i686")


class Part(NamedTuple):
    """One part of the arena."""

    offset: int
    length: int


def parse_part(name: str, value: str, size: int) -> Part:
    """Read "OFFSET LENGTH", which must lie in a file of size bytes, behind the page."""
    words = value.split(" ")
    if len(words) != 2:
        raise Invalid(f"{name} is not OFFSET LENGTH: {value[:40]!r}")
    part = Part(_frames.parse_number(name, words[0]), _frames.parse_number(name, words[1]))
    if part.length and (part.offset < PAGE_SIZE or part.offset + part.length > size):
        raise Invalid(f"{name} lies outside the shared memory of {size} bytes: {value!r}")
    return part


class Memory:
    """The mapped file. One thread at a time may place replies."""

    def __init__(self, fd: int) -> None:
        info = os.fstat(fd)
        self.size = info.st_size
        if self.size < PAGE_SIZE:
            raise Invalid(f"the shared memory has {self.size} bytes; the page has {PAGE_SIZE}")
        self._copy: Optional[int] = None
        self._map = self._open(fd, info.st_ino)
        os.close(fd)
        self.bytes = memoryview(self._map)
        self.words = self.bytes[:PAGE_SIZE].cast("I")
        self._longs = self.bytes[:PAGE_SIZE].cast("Q")
        if self.words[0] != MAGIC:
            raise Invalid("the shared memory does not begin with the mark of the page")
        self.request: Optional[Part] = None
        self.reply: Optional[Part] = None
        self._taken = 0
        #: Taken and given back as a memory barrier; it guards nothing.
        self.lock = threading.Lock()

    def _open(self, fd: int, inode: int) -> mmap.mmap:
        if sys.version_info >= (3, 13):
            return mmap.mmap(fd, self.size, trackfd=False)
        # Older versions keep a copy of the descriptor, with the lowest free
        # number; it is remembered so that forked children can let go of it.
        lowest = os.dup(fd)
        os.close(lowest)
        mapped = mmap.mmap(fd, self.size)
        try:
            if os.fstat(lowest).st_ino == inode:
                self._copy = lowest
        except OSError:
            pass
        return mapped

    def fence(self) -> None:
        """A full memory barrier."""
        with self.lock:
            pass
        with self.lock:
            pass

    def recalled(self, number: int) -> bool:
        """Whether the host took task number back. Call it after storing `started` and the fence."""
        first = self.words[RECALL]
        return first != 0 and not _frames.before(number, first)

    def payload(self, data: Any, at: int, stop: int) -> memoryview:
        """The payload that the reference at data[at:stop] names."""
        if stop - at != REQUEST_REFERENCE.size:
            raise Invalid(f"an arena reference of {stop - at} bytes in TASK; it has {REQUEST_REFERENCE.size}")
        offset, length = REQUEST_REFERENCE.unpack_from(data, at)
        part = self.request
        if part is None:
            raise Invalid("an arena reference, though no request part was agreed")
        if offset < part.offset or offset + length > part.offset + part.length:
            raise Invalid(f"an arena reference to {length} bytes at {offset} lies outside its part "
                          f"({part.length} bytes at {part.offset})")
        return self.bytes[offset:offset + length]

    def place(self, result: memoryview) -> Optional[bytes]:
        """Copy result into the reply part; the body of its RESULT, or None when there is no room."""
        part, n = self.reply, len(result)
        if part is None or not part.length or not n:
            return None
        length, taken, freed = part.length, self._taken, self._longs[_FREED]
        if freed == taken:
            # What is jumped over is free already.
            taken = freed = (taken + length - 1) // length * length
        room = (n + 63) & ~63
        at = taken % length
        if at + room > length:
            taken, at = taken + length - at, 0
        if taken + room - freed > length:
            return None
        offset = part.offset + at
        self.bytes[offset:offset + n] = result
        self._taken = taken + room
        return REPLY_REFERENCE.pack(offset, n, self._taken)

    def forget(self) -> None:
        """Let go of the memory in a forked child. Views of handlers keep the mapping, not the descriptor."""
        self.words.release()
        self._longs.release()
        self.bytes.release()
        try:
            self._map.close()
        except BufferError:
            if self._copy is not None:
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, self._copy, inheritable=False)
                os.close(null)
