"""HTTP/1.1 as bytes: requests are written and answers are read here, without input and output."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

MAX_HEAD = 64 << 10  # of the answer's header, and of the trailer of a chunked one
_MAX_LINE = 256  # of the line before a chunk
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DIGITS = re.compile(r"[0-9]{1,18}")
_HEX = re.compile(rb"[0-9a-fA-F]{1,15}")
_UNSAFE = re.compile(r"[^\x20-\x7e]")


class Malformed(Exception):
    """The other side does not speak HTTP/1.1, or exceeds a limit."""


class Target(NamedTuple):
    """Where requests go."""

    secure: bool
    host: str
    port: int
    authority: str
    prefix: str

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"


def parse_url(url: str) -> Target:
    """Read the address of a server; ValueError says what is wrong with it."""
    parts = urlsplit(url)
    example = "use one such as http://127.0.0.1:8650"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the address of a server: {example}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"the address has a user, a query or a fragment: {example}, and pass a token instead of a user")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"{url!r} has no valid port: {example}") from None
    secure = parts.scheme == "https"
    host = parts.hostname
    name = f"[{host}]" if ":" in host else host
    authority = name if port is None else f"{name}:{port}"
    if _UNSAFE.search(authority + parts.path) or " " in authority + parts.path:
        raise ValueError(f"{url!r} has characters that are not allowed in an address: {example}")
    return Target(secure, host, port or (443 if secure else 80), authority, parts.path.rstrip("/"))


class Request(NamedTuple):
    """A request, whole in memory."""

    method: str
    path: str
    headers: Tuple[Tuple[str, str], ...] = ()
    body: bytes = b""


def path(*parts: str, query: Optional[List[Tuple[str, str]]] = None) -> str:
    """The path of parts under /v1, each part escaped, with a query."""
    joined = "/v1/" + "/".join([quote(part, safe="") for part in parts])
    return f"{joined}?{urlencode(query)}" if query else joined


def write_head(request: Request, target: Target, fixed: Tuple[Tuple[str, str], ...] = ()) -> bytes:
    """The bytes of a request up to its body. ValueError where a header cannot be sent."""
    lines = [f"{request.method} {target.prefix}{request.path} HTTP/1.1", f"Host: {target.authority}"]
    for name, value in fixed + request.headers:
        if _UNSAFE.search(value):
            raise ValueError(f"the header {name} has characters that cannot be sent; use printable ASCII")
        lines.append(f"{name}: {value}")
    if request.body or request.method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(request.body)}")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("ascii")


class Answer(NamedTuple):
    """A status, the headers by their names in lower case, and the body."""

    status: int
    headers: Dict[str, str]
    body: bytes


class Parser:
    """Reads one answer, in whatever pieces it comes."""

    def __init__(self, limit: int) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.complete = False
        self.reusable = False  # once it is complete: the connection can take another request
        self._limit = limit  # of the body that is held
        self._buffer = bytearray()
        self._seen = 0  # how much of the buffer has no end of the header in it
        self._parts: List[bytes] = []
        self._held = 0
        self._left = -1  # of the body, or of the chunk; -1 not known
        self._chunked = False
        self._trailer = -1  # its size so far; -1 not reached

    def feed(self, data: bytes) -> None:
        """Take what came; b"" is the end of the connection. Malformed ends it."""
        if self.complete:
            self.reusable = False  # more than an answer, or the end
            return
        self._buffer += data
        while not self.status:
            if not self._head():
                if not data:
                    raise Malformed("the connection was closed before the answer" if not self._buffer
                                    else "the connection was closed in the middle of the answer's header")
                return
        if self._chunked:
            self._chunks()
        elif not self.complete:
            self._plain()
        if self.complete:
            self.reusable = self.reusable and not self._buffer and bool(data)
        elif not data:
            if self._chunked or self._left >= 0:
                raise Malformed("the connection was closed in the middle of the answer")
            self.complete = True

    def take(self) -> bytes:
        """The body as far as it has come since the last call."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return body

    def answer(self) -> Answer:
        """The whole answer."""
        return Answer(self.status, self.headers, self.take())

    def _head(self) -> bool:
        """Read one header, of an interim answer too; False when more must come first."""
        end = self._buffer.find(b"\r\n\r\n", max(0, self._seen - 3))
        if end < 0 and len(self._buffer) <= MAX_HEAD:
            self._seen = len(self._buffer)
            return False
        if end < 0 or end > MAX_HEAD:
            raise Malformed(f"the answer's header has more than {MAX_HEAD} bytes")
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[:end + 4]
        self._seen = 0
        first = _STATUS.fullmatch(lines[0])
        if first is None:
            raise Malformed(f"the answer is not HTTP/1.1: it begins with {lines[0][:40]!r}")
        status = int(first[2])
        if status == 101:
            raise Malformed("the server switches to another protocol")
        if status < 200:
            return True  # interim: the real one follows
        self.status = status
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(name):
                raise Malformed(f"a malformed header line: {line[:40]!r}")
            key, text = name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")
            if key == "content-length" and self.headers.get(key, text) != text:
                raise Malformed("the answer has two lengths")
            if key in self.headers and key != "content-length":
                text = f"{self.headers[key]}, {text}"
            self.headers[key] = text
        self._framing(first[1] == b"1")
        return True

    def _framing(self, current: bool) -> None:
        """How the body ends, and whether the connection lives on."""
        options = [word.strip() for word in self.headers.get("connection", "").lower().split(",")]
        self.reusable = "close" not in options if current else "keep-alive" in options
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self.complete = True
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise Malformed(f"a body without a clear end: Transfer-Encoding {coding[:40]!r}, Content-Length {length!r}")
            self._chunked = True
        elif length is not None:
            if not _DIGITS.fullmatch(length):
                raise Malformed(f"Content-Length {length[:40]!r} is not a number")
            self._left = int(length)
            self._bound(self._left)
        else:
            self.reusable = False  # the body ends with the connection

    def _bound(self, more: int) -> None:
        if self._held + more > self._limit:
            raise Malformed(f"the answer has more than {self._limit} bytes; to accept it, raise max_answer")

    def _keep(self, size: int) -> None:
        """Move size bytes of the buffer to the body."""
        if size:
            self._bound(size)
            self._held += size
            self._parts.append(bytes(self._buffer[:size]))
            del self._buffer[:size]

    def _plain(self) -> None:
        size = len(self._buffer) if self._left < 0 else min(self._left, len(self._buffer))
        self._keep(size)
        if self._left >= 0:
            self._left -= size
            self.complete = self._left == 0

    def _line(self, most: int) -> Optional[bytes]:
        """The next line of the buffer, without its end; None when it is not whole."""
        end = self._buffer.find(b"\r\n", 0, most + 2)
        if end < 0:
            if len(self._buffer) >= most + 2:
                raise Malformed("a line of a chunked body has no end")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[:end + 2]
        return line

    def _chunks(self) -> None:
        while not self.complete:
            if self._trailer >= 0:
                line = self._line(MAX_HEAD)
                if line is None:
                    return
                self._trailer += len(line) + 2
                if self._trailer > MAX_HEAD:
                    raise Malformed(f"the answer's trailer has more than {MAX_HEAD} bytes")
                self.complete = not line
            elif self._left < 0:
                line = self._line(_MAX_LINE)
                if line is None:
                    return
                size = line.partition(b";")[0].rstrip(b" \t")
                if not _HEX.fullmatch(size):
                    raise Malformed(f"a chunk has the size {size[:40]!r}")
                self._left = int(size, 16)
                self._bound(self._left)
                if self._left == 0:
                    self._trailer = 0
            elif self._left > 0:
                if not self._buffer:
                    return
                size_here = min(self._left, len(self._buffer))
                self._keep(size_here)
                self._left -= size_here
            else:
                if len(self._buffer) < 2:
                    return
                if self._buffer[:2] != b"\r\n":
                    raise Malformed("a chunk is longer than its size")
                del self._buffer[:2]
                self._left = -1
