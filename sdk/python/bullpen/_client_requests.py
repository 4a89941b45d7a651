"""What a client asks: arguments in, requests out."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union
from urllib.parse import urlencode

from . import _client_errors as errors
from . import _session
from ._http import Request, path

Payload = Union[bytes, bytearray, memoryview, str]
Duration = Union[int, float, timedelta, str]
Moment = Union[datetime, str]
Size = Union[int, str]
#: A job that follows: TASK, TASK@POOL, or a mapping with ``task``, ``pool`` and other options.
Link = Union[str, Mapping[str, Any]]
Then = Union[Link, Sequence[Link]]


class Limits(TypedDict, total=False):
    """Limits of a task. Durations are seconds, a timedelta, or text such as "1h30m"."""

    task: str  # the handler's name; the pool's own without one
    timeout: Duration  # of each attempt
    memory: Size  # bytes, or text such as "512MiB"
    cpu: float  # processors
    output: Size  # the largest result
    deadline: Moment  # a time, waiting included
    meta: Mapping[str, Union[str, bytes]]
    content_type: str
    parent: str  # the task that waits for this one; that of the handler that calls without one


class Options(Limits, total=False):
    """Options of a job: key, start, retries."""

    key: str  # of all jobs with one key only the first is taken
    group: str  # whose job it is: the groups of a pool have their turns one after the other
    priority: str  # high, normal or low
    delay: Duration
    at: Moment
    attempts: int
    backoff: Duration
    max_backoff: Duration
    crashes: int
    idempotent: bool
    compensate: str
    bury: str  # the task that is enqueued when the job is dead
    then: Then  # what follows when the job has ended well, with its result as payload


class Filter(TypedDict, total=False):
    """A filter for jobs."""

    pool: str
    task: str
    group: str
    schedule: str
    batch: str  # its id
    state: str  # one or several, separated by commas
    search: str  # text in id, task, key, group or error
    since: Moment  # of the end, or of the submission where it has not ended
    before: Moment
    order: str  # oldest or newest first


class ListFilter(Filter, total=False):
    """A filter for lists of jobs, also by how they have ended."""

    reason: str
    outcome: str
    cause: str  # as causes tells it


class DeadFilter(TypedDict, total=False):
    """A filter for dead jobs."""

    pool: str
    task: str
    group: str
    schedule: str
    batch: str  # its id
    reason: str
    outcome: str
    cause: str  # as causes tells it
    search: str
    since: Moment
    before: Moment
    order: str


def text(value: object) -> str:
    """A string, unchanged."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a str")
    return value


def duration(value: object) -> str:
    """Seconds, a timedelta, or text such as 1h30m."""
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 9e9:
        raise ValueError(f'{value!r} is not a duration; use seconds, a timedelta, or text such as "1h30m"')
    return f"{value:.9f}".rstrip("0").rstrip(".") + "s"


def moment(value: object) -> str:
    """A datetime, which is local time where it names no zone, or text of RFC 3339."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is not a time; use a datetime, or text such as 2026-01-31T08:00:00Z")
    return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"


def number(value: object) -> str:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def size(value: object) -> str:
    """Bytes, or text such as 512MiB."""
    return value if isinstance(value, str) else number(value)


def flag(value: object) -> str:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither True nor False")
    return "true" if value else "false"


_LIMITS: Dict[str, Callable[[object], str]] = {
    "task": text, "timeout": duration, "memory": size, "cpu": number, "output": size, "deadline": moment,
}
OPTIONS: Dict[str, Callable[[object], str]] = {
    **_LIMITS, "key": text, "group": text, "priority": text, "delay": duration, "at": moment, "attempts": number, "backoff": duration,
    "max_backoff": duration, "crashes": number, "idempotent": flag, "compensate": text, "bury": text,
}
_HEADERS = ("meta", "content_type", "parent")


def _nearest(name: str, names: List[str]) -> str:
    from difflib import get_close_matches  # only where somebody misspells

    found = get_close_matches(name, names, 1, 0.5)
    return f"did you mean {found[0]!r}?" if found else f"known are {', '.join(names)}"


def read_options(options: Mapping[str, Any], known: Mapping[str, Callable[[object], str]],
                 others: Tuple[str, ...] = ()) -> List[Tuple[str, str]]:
    """Options as text; None means not given. Raises BadRequest with everything that is wrong."""
    query: List[Tuple[str, str]] = []
    faults: List[str] = []
    for name, value in options.items():
        if name in others or value is None and name in known:
            continue
        if name not in known:
            faults.append(f"unknown option {name!r}: {_nearest(name, [*known, *others])}")
            continue
        try:
            query.append((name, known[name](value)))
        except (TypeError, ValueError, OverflowError) as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise errors.BadRequest("; ".join(faults), faults=faults)
    return query


def payload_bytes(payload: Payload) -> bytes:
    """The bytes of a payload."""
    if isinstance(payload, str):
        return payload.encode("utf-8")
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    raise errors.BadRequest(f"a payload is bytes, bytearray, memoryview or str, not {type(payload).__name__}; "
                            "encode it, for example with json.dumps")


class Here(NamedTuple):
    """What the handler that makes a call was given."""

    parent: str
    trace: Tuple[Tuple[str, str], ...]


def here() -> Here:
    """The task of the handler that calls, empty outside of one."""
    session = _session.serving
    pairs = session.opened_here() if session is not None else []
    parent, trace = "", {}
    for key, value in pairs:
        if key == "bullpen.id":
            parent = value.decode("utf-8", "replace")
        elif key in ("traceparent", "tracestate"):
            trace[key] = value.decode("utf-8", "replace")
    return Here(parent, tuple(trace.items()))


def submit(pool: str, verb: str, payload: Payload, options: Mapping[str, Any], wait: Optional[float] = None) -> Request:
    """The request that submits a payload; verb is jobs or run."""
    known = dict(OPTIONS) if verb == "jobs" else {**_LIMITS, "id": text, "chunks": flag}
    query = read_options(options, known, _HEADERS)
    if wait is not None:
        query.append(("wait", duration(wait)))
    return Request("POST", path("pools", pool, verb, query=query), _headers(options), payload_bytes(payload))


def _headers(options: Mapping[str, Any]) -> Tuple[Tuple[str, str], ...]:
    current = here()
    headers: List[Tuple[str, str]] = []
    meta = options.get("meta") or {}
    if meta:
        try:
            headers.append(("Bullpen-Meta", urlencode(list(meta.items()), errors="surrogateescape")))
        except (TypeError, AttributeError, ValueError):
            raise errors.BadRequest("meta is a mapping of str to str or bytes", faults=["meta"]) from None
    given = {key.lower() for key in meta}
    if "traceparent" not in given:
        headers += [pair for pair in current.trace if pair[0] not in given]
    if options.get("content_type"):
        headers.append(("Content-Type", text(options["content_type"])))
    parent = options.get("parent")
    parent = current.parent if parent is None else parent
    if parent:
        headers.append(("Bullpen-Parent", parent))
    return tuple(headers)


def as_parent(parent: Optional[str] = None) -> Tuple[Tuple[str, str], ...]:
    """The header of a request that waits for a job."""
    parent = here().parent if parent is None else parent
    return (("Bullpen-Parent", parent),) if parent else ()


_LISTS: Dict[str, Callable[[object], str]] = {
    "pool": text, "task": text, "group": text, "schedule": text, "batch": text, "state": text, "reason": text,
    "outcome": text, "cause": text, "search": text, "since": moment, "before": moment, "order": text,
}
JOBS = ("pool", "task", "group", "schedule", "batch", "state", "search", "since", "before", "order")
LIST = (*JOBS, "reason", "outcome", "cause")
DEAD = ("pool", "task", "group", "schedule", "batch", "reason", "outcome", "cause", "search", "since", "before", "order")
CAUSES = ("pool", "task", "group", "schedule", "batch", "reason", "outcome", "search", "since", "before")


def listing(words: Tuple[str, ...], names: Tuple[str, ...], options: Mapping[str, Any], page: int, after: str) -> Request:
    """The request for a page of jobs."""
    query = read_options(options, {name: _LISTS[name] for name in names})
    query.append(("limit", number(page)))
    if after:
        query.append(("after", after))
    return Request("GET", path(*words, query=query))


def filtered(words: Tuple[str, ...], names: Tuple[str, ...], options: Mapping[str, Any], everything: bool,
             limit: Optional[int]) -> Request:
    """The request that does something with all jobs of a filter."""
    body: Dict[str, Any] = dict(read_options(options, {name: _LISTS[name] for name in names}))
    if everything:
        body["all"] = True
    if limit is not None:
        body["limit"] = limit
    return post(path(*words), body)


def causes(options: Mapping[str, Any]) -> Request:
    """The request for what jobs have died of."""
    return Request("GET", path("dead", "causes", query=read_options(options, {name: _LISTS[name] for name in CAUSES})))


def post(where: str, body: Optional[Dict[str, Any]] = None) -> Request:
    """A POST with a JSON object."""
    if body is None:
        return Request("POST", where)
    return Request("POST", where, (("Content-Type", "application/json"),), json.dumps(body).encode("ascii"))


def bounds(least: Optional[int], most: Optional[int]) -> Dict[str, Any]:
    """The bounds of a pool, those that are given."""
    found = {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    if not found:
        raise errors.BadRequest("neither min nor max is given: pass one or both", faults=["min", "max"])
    return found
