"""The server's information about batches, schedules and itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ._client_answers import bad, counts, field, moment, moments


class BatchInfo(NamedTuple):
    """The server's information about a batch. Fields that it leaves out are empty; `raw` has the complete answer."""

    id: str
    key: str
    #: open, running, done or canceled.
    state: str
    #: How many jobs it has; while it is open, how many are there.
    total: int
    ended: int
    ok: int
    failed: int
    canceled: int
    #: Jobs that are neither in the queue nor kept with how they ended.
    lost: int
    created: Optional[datetime]
    ended_at: Optional[datetime]
    first_failed: str
    #: The jobs of ``then`` and ``failed``, once they are enqueued.
    then_id: str
    failed_id: str
    meta: Dict[str, str]
    #: Whether it was there before.
    existing: bool
    raw: Dict[str, Any]

    @property
    def over(self) -> bool:
        """Whether all its jobs have ended."""
        return self.state in ("done", "canceled") and self.ended_at is not None


class ScheduleInfo(NamedTuple):
    """The server's information about a schedule. Fields that it leaves out are empty; `raw` has the complete answer, with its job."""

    name: str
    pool: str
    cron: str
    #: Seconds from tick to tick; 0 with cron.
    every: float
    zone: str
    missed: str
    overlap: str
    paused: bool
    #: "config" for one of the configuration.
    origin: str
    #: The next tick, and the next three, which lists leave out.
    next: Optional[datetime]
    upcoming: Tuple[datetime, ...]
    last: Optional[datetime]
    last_job: str
    last_state: str
    fired: int
    skipped: int
    error: str
    raw: Dict[str, Any]


class StoreInfo(NamedTuple):
    """Where a server keeps its jobs; `raw` has the complete answer."""

    #: memory, embedded or server.
    kind: str
    #: What a job that was taken has survived.
    durability: str
    replicas: int
    #: Why it does not answer.
    error: str
    raw: Dict[str, Any]


class StatusInfo(NamedTuple):
    """The status of a server. Fields that it leaves out are empty; `raw` has the complete answer."""

    version: str
    node: str
    #: Seconds since its start.
    uptime: float
    ready: bool
    live: bool
    stopping: bool
    store: StoreInfo
    #: What the node has done with jobs since its start, such as enqueued and retried.
    queue: Dict[str, int]
    #: How jobs have ended, by outcome.
    ended: Dict[str, int]
    log_lines_dropped: int
    reload_error: str
    raw: Dict[str, Any]


def batch(data: Dict[str, Any]) -> BatchInfo:
    """A batch, of its JSON."""
    def text(key: str) -> str:
        return field(data, key, str)

    def number(key: str) -> int:
        return field(data, key, int)

    if not text("id") or not text("state"):
        raise bad("it is not a batch: it has no id, or no state")
    meta: Dict[str, Any] = field(data, "meta", dict)
    return BatchInfo(
        text("id"), text("key"), text("state"), number("total"), number("ended"), number("ok"), number("failed"),
        number("canceled"), number("lost"), moment(data, "created"), moment(data, "ended_at"), text("first_failed"),
        text("then_id"), text("failed_id"), {key: str(value) for key, value in meta.items()}, field(data, "existing", bool), data)


def schedule(data: Dict[str, Any]) -> ScheduleInfo:
    """A schedule, of its JSON."""
    def text(key: str) -> str:
        return field(data, key, str)

    if not text("name"):
        raise bad("it is not a schedule: it has no name")
    return ScheduleInfo(
        text("name"), text("pool"), text("cron"), field(data, "every", float), text("zone"), text("missed"), text("overlap"),
        field(data, "paused", bool), text("origin"), moment(data, "next"), moments(data, "upcoming"), moment(data, "last"),
        text("last_job"), text("last_state"), field(data, "fired", int), field(data, "skipped", int), text("error"), data)


def status(data: Dict[str, Any]) -> StatusInfo:
    """The status of a server, from its JSON."""
    def text(key: str) -> str:
        return field(data, key, str)

    def flag(key: str) -> bool:
        return field(data, key, bool)

    store: Dict[str, Any] = field(data, "store", dict)
    queue: Dict[str, Any] = field(data, "queue", dict)
    return StatusInfo(
        text("version"), text("node"), field(data, "uptime", float), flag("ready"), flag("live"), flag("stopping"),
        StoreInfo(field(store, "kind", str), field(store, "durability", str),
                  field(store, "replicas", int), field(store, "error", str), store),
        counts(data, "queue"), counts(queue, "ended"), field(data, "log_lines_dropped", int), text("reload_error"), data)
