"""What a server answers, read from its bytes."""

from __future__ import annotations

import base64
import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union

from . import _client_errors as errors
from ._http import Answer

T = TypeVar("T")

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)

_CLASSES: Dict[str, Type[errors.ClientError]] = {
    "bad-request": errors.BadRequest, "method": errors.BadRequest, "media-type": errors.BadRequest,
    "too-large": errors.TooLarge, "bad-config": errors.BadConfig, "unauthorized": errors.Unauthorized,
    "forbidden": errors.Forbidden, "not-found": errors.NotFound, "unknown-pool": errors.NotFound,
    "ended": errors.Ended, "not-ended": errors.NotEnded, "payload-gone": errors.PayloadGone, "not-dead": errors.NotDead, "nested": errors.Nested, "busy-id": errors.BusyId,
    "incomplete": errors.Incomplete, "overlap": errors.Overlap, "managed": errors.Managed,
    "ended-badly": errors.JobFailed, "unknown-task": errors.UnknownTask, "refused": errors.Refused,
    "overloaded": errors.Overloaded, "full": errors.Overloaded, "rate": errors.Overloaded, "closed": errors.Closed,
    "start-failed": errors.StartFailed, "store": errors.StoreFailed, "unconfirmed": errors.Unconfirmed,
    "internal": errors.ServerError,
}
_BY_STATUS: Dict[int, Type[errors.ClientError]] = {
    401: errors.Unauthorized, 403: errors.Forbidden, 404: errors.NotFound, 413: errors.TooLarge, 429: errors.Overloaded,
}


class Progress(NamedTuple):
    """The progress of a task: 0.0 to 1.0, and a note."""

    fraction: float
    note: str


class Line(NamedTuple):
    """A line that a task wrote, or logged."""

    time: Optional[datetime]
    #: As in `logging`: 10 debug, 20 info, 30 warning, 40 error.
    level: int
    stream: str
    text: str


class JobInfo(NamedTuple):
    """The server's information about a job. Fields that it leaves out are empty; `raw` has the complete answer."""

    id: str
    pool: str
    task: str
    #: scheduled, queued, running, retrying, done, dead or canceled.
    state: str
    key: str
    priority: str
    enqueued: Optional[datetime]
    at: Optional[datetime]
    deadline: Optional[datetime]
    attempts: int
    crashes: int
    node: str
    worker: str
    progress: float
    note: str
    ended: Optional[datetime]
    outcome: str
    reason: str
    error: str
    #: The job that this one tries again, undoes, or is told of.
    parent: str
    meta: Dict[str, str]
    lines: Tuple[Line, ...]
    raw: Dict[str, Any]

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.state in ("done", "dead", "canceled")


class PoolInfo(NamedTuple):
    """The server's information about a pool; `raw` has the complete answer."""

    name: str
    state: str
    paused: bool
    protocol: str
    task: str
    ephemeral: bool
    min: int
    max: int
    workers: Dict[str, int]
    queued: int
    outcomes: Dict[str, int]
    error: str
    raw: Dict[str, Any]


class Event(NamedTuple):
    """One event of a job. `kind` is state, progress, log or end, and says which of the others is set."""

    kind: str
    #: Goes on behind this event when it is given to ``follow(after=...)``.
    id: str
    state: str = ""
    attempt: int = 0
    progress: Optional[Progress] = None
    log: Optional[Line] = None
    job: Optional[JobInfo] = None


class Ref(NamedTuple):
    """A job that was accepted."""

    id: str
    pool: str
    state: str
    existing: bool


def bad(what: str, answer: Optional[Answer] = None) -> errors.BadAnswer:
    """The error for an answer that is not what it should be."""
    place = f", status {answer.status}, {answer.body[:80]!r}" if answer is not None else ""
    return errors.BadAnswer(f"cannot parse the server's answer: {what}{place}. Is it a Bullpen server of a version "
                            "that this client supports?", status=answer.status if answer is not None else 0)


def load(data: Union[bytes, str]) -> Any:
    """Parse JSON; raise BadAnswer if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise bad("it is not JSON") from None


def load_object(answer: Answer) -> Dict[str, Any]:
    """The JSON object of an answer."""
    try:
        found = load(answer.body)
    except errors.BadAnswer:
        raise bad("it is not JSON", answer) from None
    if not isinstance(found, dict):
        raise bad("it is not a JSON object", answer)
    return found


def field(data: Dict[str, Any], key: str, kind: Callable[[], T]) -> T:
    """data[key], which is of that kind; the kind's empty value where it is left out."""
    value = data.get(key)
    empty = kind()
    if value is None:
        return empty
    if isinstance(empty, float) and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise bad(f"{key!r} is too large") from None
    if not isinstance(value, type(empty)) or isinstance(value, bool) and not isinstance(empty, bool):
        raise bad(f"{key!r} is {str(value)[:40]!r}, not of the kind {type(empty).__name__}")
    return value


def objects(data: Dict[str, Any], key: str) -> List[Dict[str, Any]]:
    """data[key], which is a list of objects."""
    found: List[Dict[str, Any]] = field(data, key, list)
    if not all(isinstance(one, dict) for one in found):
        raise bad(f"{key!r} is not a list of objects")
    return found


def moment(data: Dict[str, Any], key: str) -> Optional[datetime]:
    """data[key], which is a time of RFC 3339; what is finer than a microsecond is cut off."""
    text = field(data, key, str)
    if not text:
        return None
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        micro = (found[3] or "").ljust(6, "0")[:6]
        when = datetime.strptime(f"{found[1]} {found[2]}.{micro}", "%Y-%m-%d %H:%M:%S.%f")
        if found[4]:
            offset = timedelta(hours=int(found[5]), minutes=int(found[6]))
            when += -offset if found[4] == "+" else offset
        return when.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        raise bad(f"{key!r} is {text[:40]!r}, which is not a time") from None


def moments(data: Dict[str, Any], key: str) -> Tuple[datetime, ...]:
    """data[key], which is a list of times."""
    given: List[Any] = field(data, key, list)
    found = [moment({key: one}, key) for one in given]
    return tuple([one for one in found if one is not None])


def counts(data: Dict[str, Any], key: str) -> Dict[str, int]:
    found: Dict[str, Any] = field(data, key, dict)
    return {word: number for word, number in found.items() if isinstance(number, int) and not isinstance(number, bool)}


def _line(data: Dict[str, Any]) -> Line:
    level = max(-8, min(12, field(data, "level", int)))  # the server's are -4, 0, 4 and 8
    return Line(moment(data, "time"), 20 + level * 5 // 2, field(data, "stream", str), field(data, "text", str))


def job(data: Dict[str, Any]) -> JobInfo:
    """A job, of its JSON."""
    def text(key: str) -> str:
        return field(data, key, str)

    given: Dict[str, Any] = field(data, "meta", dict)
    meta = {key: str(value) for key, value in given.items()}
    if not text("id") or not text("state"):
        raise bad("it is not a job: it has no id, or no state")
    return JobInfo(
        text("id"), text("pool"), text("task"), text("state"), text("key"), text("priority"), moment(data, "enqueued"),
        moment(data, "at"), moment(data, "deadline"), field(data, "attempts", int), field(data, "crashes", int),
        text("node"), text("worker"), field(data, "progress", float), text("note"), moment(data, "ended"),
        text("outcome"), text("reason"), text("error"), text("parent"), meta,
        tuple(_line(line) for line in objects(data, "lines")), data)


def pool(data: Dict[str, Any]) -> PoolInfo:
    """A pool, of its JSON."""
    def text(key: str) -> str:
        return field(data, key, str)

    if not text("name"):
        raise bad("it is not a pool: it has no name")
    return PoolInfo(
        text("name"), text("state"), field(data, "paused", bool), text("protocol"), text("task"),
        field(data, "ephemeral", bool), field(data, "min", int), field(data, "max", int), counts(data, "workers"),
        field(data, "queued", int), counts(data, "outcomes"), text("error"), data)


def ref(data: Dict[str, Any]) -> Ref:
    """The answer for an accepted job."""
    found = Ref(field(data, "id", str), field(data, "pool", str), field(data, "state", str), field(data, "existing", bool))
    if not found.id:
        raise bad("it has no job id")
    return found


def load_dict(text: str) -> Dict[str, Any]:
    """The JSON object of an event."""
    data = load(text)
    if not isinstance(data, dict):
        raise bad("an event without an object")
    return data


def piece(text: str) -> bytes:
    """The payload in an event."""
    try:
        return base64.b64decode(field(load_dict(text), "payload_base64", str), validate=True)
    except ValueError:
        raise bad("a payload that is not base64") from None


def event(kind: str, id: str, text: str) -> Optional[Event]:
    """An event of a stream; None for one that this client does not know."""
    if kind not in ("state", "progress", "log", "end"):
        return None
    data = load_dict(text)
    if kind == "state":
        return Event(kind, id, state=field(data, "state", str), attempt=field(data, "attempt", int))
    if kind == "progress":
        return Event(kind, id, progress=Progress(field(data, "fraction", float), field(data, "note", str)))
    if kind == "log":
        return Event(kind, id, log=_line(data))
    return Event(kind, id, job=job(data))


def retry_after(answer: Answer) -> float:
    """The seconds of Retry-After; 0 if it is missing or a date."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0


def problem_of(answer: Answer) -> Dict[str, Any]:
    """The problem in an answer; empty if it is not from a Bullpen server."""
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/problem+json":
        return {}
    try:
        return load_object(answer)
    except errors.BadAnswer:
        return {}


def error_of(answer: Answer) -> errors.ClientError:
    """The error for an answer."""
    data = problem_of(answer)
    if not data:
        kind = _BY_STATUS.get(answer.status)
        text = answer.body[:200].decode("utf-8", "replace").strip()
        if kind is None:
            return bad("it is not the answer of a Bullpen server", answer)
        return kind(f"status {answer.status}: {text}" if text else f"status {answer.status}", status=answer.status)
    return problem(data, answer.status, retry_after(answer))


def problem(data: Dict[str, Any], status: int = 0, after: float = 0.0) -> errors.ClientError:
    """The error for a problem. It never fails: values of a wrong type are left out."""
    def get(key: str, source: Optional[Dict[str, Any]] = None) -> str:
        value = (data if source is None else source).get(key)
        return value if isinstance(value, str) else ""

    given = data.get("status")
    status = status or (given if isinstance(given, int) and not isinstance(given, bool) else 0)
    kind = _CLASSES.get(get("cause")) or _BY_STATUS.get(status) or errors.ServerError
    if get("outcome"):
        kind = errors.Lost if get("outcome") == "lost" else errors.JobFailed
    message = get("detail") or get("title") or get("cause") or f"status {status}"
    faults = data.get("faults")
    listed = [str(fault) for fault in faults] if isinstance(faults, list) else []
    if listed and not all(fault in message for fault in listed):
        message += ": " + "; ".join(listed)
    error = kind(message, status=status, cause=get("cause"), id=get("job"))
    if isinstance(error, errors.BadRequest):
        error.faults = tuple(listed)
    if isinstance(error, errors.NeverStarted):
        error.retry_after = after
    if isinstance(error, errors.JobFailed):
        failure = data.get("failure")
        _fill(error, data, failure if isinstance(failure, dict) else {})
    return error


def _fill(error: errors.JobFailed, data: Dict[str, Any], failure: Dict[str, Any]) -> None:
    """Add the details of the problem to the error of a failed job."""
    for name, source in (("outcome", data), ("reason", data), ("attempts", data), ("task", failure), ("type", failure),
                         ("message", failure), ("stack", failure), ("retryable", failure), ("worker", failure),
                         ("exit_code", failure), ("signal", failure), ("detail", failure)):
        value = source.get(name)
        if type(value) is type(getattr(error, name)):
            setattr(error, name, value)
    if not error.message:
        error.message = str(error)


class Events:
    """Reads server-sent events, in whatever pieces they come."""

    def __init__(self, limit: int) -> None:
        self.last = ""  # the id of the last event that came whole
        self.retry = 0.0  # seconds to wait before the next connection, where the server says so
        self._limit = limit
        self._rest: List[bytes] = []  # of a line that is not whole
        self._held = 0  # its size
        self._id = ""
        self._kind = ""
        self._data: List[str] = []
        self._size = 0
        self._begun = False

    def feed(self, data: bytes) -> List[Tuple[str, str, str]]:
        """The events that are whole now: kind, id and data."""
        found: List[Tuple[str, str, str]] = []
        self._rest.append(data)
        self._held += len(data)
        if data and b"\n" not in data and b"\r" not in data:
            self._check()
            return found
        text = b"".join(self._rest)
        # A line feed that follows may belong to a carriage return at the end.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text[:len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = [lines.pop() + held]
        self._held = len(self._rest[0])
        for line in lines:
            self._size += len(line)
            if not self._begun:
                self._begun = True
                line = line[3:] if line.startswith(b"\xef\xbb\xbf") else line
            if line:
                self._line(line.decode("utf-8", "replace"))
                continue
            self.last = self._id
            if self._data:
                found.append((self._kind or "message", self.last, "\n".join(self._data)))
            self._kind, self._size = "", 0
            self._data.clear()
        self._check()
        return found

    def _check(self) -> None:
        if self._size + self._held > self._limit:
            raise bad(f"an event has more than {self._limit} bytes")

    def _line(self, line: str) -> None:
        name, _, value = line.partition(":")
        if value.startswith(" "):
            value = value[1:]
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = min(30.0, int(value[:9]) / 1000)
