"""Jobs as the lines and objects of bulks, chains and batches."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple, Union

from ._client_errors import BadRequest
from ._client_requests import OPTIONS, Link, Payload, Then, as_parent, here, payload_bytes, read_options, text


class Entry(NamedTuple):
    """One job of a bulk request."""

    line: bytes
    keyed: bool


def entry(item: Union[Payload, Mapping[str, Any]], defaults: Mapping[str, Any], trace: Mapping[str, str]) -> Entry:
    """A line of a bulk request, of a payload or of a mapping with ``payload`` and options."""
    options = dict(defaults)
    payload: Payload = b""
    if isinstance(item, Mapping):
        options.update(item)
        payload = options.pop("payload", b"")
    else:
        payload = item
    then = options.pop("then", None)
    job: Dict[str, Any] = dict(read_options(options, OPTIONS, ("meta", "content_type")))
    if "idempotent" in job:
        job["idempotent"] = job["idempotent"] == "true"
    for name in ("attempts", "crashes", "cpu"):
        if name in job:
            job[name] = options[name]
    meta = _bulk_meta(options, trace)
    if meta:
        job["meta"] = meta
    if then:
        job["then"] = links(then, trace)
    body = payload_bytes(payload)
    if isinstance(payload, str):
        job["payload"] = payload
    elif body:
        job["payload_base64"] = base64.b64encode(body).decode("ascii")
    return Entry(json.dumps(job, separators=(",", ":")).encode("ascii") + b"\n", bool(options.get("key")))


def member(item: Union[Payload, Mapping[str, Any]], defaults: Mapping[str, Any], trace: Mapping[str, str]) -> Dict[str, Any]:
    """A job of a chain or a batch: as a line of a bulk request, with the ``pool`` that a mapping may have."""
    where = None
    if isinstance(item, Mapping) and "pool" in item:
        item = dict(item)
        where = text(item.pop("pool"))
    job: Dict[str, Any] = json.loads(entry(item, defaults, trace).line)
    if where is not None:
        job["pool"] = where
    return job


def link(item: Link, trace: Mapping[str, str]) -> Dict[str, Any]:
    """A job that follows: TASK or TASK@POOL, as `bullpen submit --then` takes it, or a mapping."""
    if isinstance(item, Mapping):
        return member(item, {}, trace)
    if not isinstance(item, str):
        raise BadRequest(f"a follower is TASK, TASK@POOL or a mapping with task and pool, not {type(item).__name__}", faults=["then"])
    task, at, where = item.partition("@")
    if not item or at and not where:
        raise BadRequest(f"{item!r} is not a follower: use TASK or TASK@POOL", faults=["then"])
    names = {"task": task, "pool": where}
    return member({name: value for name, value in names.items() if value}, {}, trace)


def links(then: Then, trace: Mapping[str, str]) -> List[Dict[str, Any]]:
    """The jobs that follow, one after the other."""
    if isinstance(then, (str, Mapping)):
        return [link(then, trace)]
    if not isinstance(then, (list, tuple)):
        raise BadRequest(f"then is a follower or a list of followers, not {type(then).__name__}", faults=["then"])
    return [link(item, trace) for item in then]


def _bulk_meta(options: Mapping[str, Any], trace: Mapping[str, str]) -> Dict[str, str]:
    """The meta of a line, including what a single request sends as headers."""
    given = options.get("meta") or {}
    try:
        meta = {key: value.decode("utf-8") if isinstance(value, bytes) else text(value) for key, value in given.items()}
    except (TypeError, AttributeError, ValueError):
        raise BadRequest("meta is a mapping of str to str; in bulk its bytes are UTF-8", faults=["meta"]) from None
    if "traceparent" not in meta:
        meta = {**trace, **meta}
    if options.get("content_type"):
        meta.setdefault("content-type", text(options["content_type"]))
    return meta


class Batch:
    """Collects jobs for one bulk request."""

    MOST = 500
    BYTES = 256 << 10

    def __init__(self, defaults: Mapping[str, Any], members: bool = False) -> None:
        self._members = members  # of a batch: they may have a pool, and may be sent again
        self._defaults = dict(defaults)
        self._parent = self._defaults.pop("parent", None)
        self._trace = dict(here().trace)
        self.entries: List[Entry] = []
        self.bytes = 0

    def add(self, item: Union[Payload, Mapping[str, Any]]) -> bool:
        """Take a job; True when the batch is full."""
        if self._members:
            line = json.dumps(member(item, self._defaults, self._trace), separators=(",", ":"))
            one = Entry(line.encode("ascii") + b"\n", True)
        else:
            one = entry(item, self._defaults, self._trace)
        self.entries.append(one)
        self.bytes += len(one.line)
        return len(self.entries) >= self.MOST or self.bytes >= self.BYTES

    def take(self) -> Tuple[List[Entry], Tuple[Tuple[str, str], ...]]:
        """The jobs, and the headers to send with them."""
        taken, self.entries, self.bytes = self.entries, [], 0
        return taken, as_parent(self._parent)
