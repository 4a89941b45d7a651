"""The calls of a client that are about schedules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, TypeVar

from . import _client_answers as answers
from . import _client_infos as infos
from . import _client_requests as requests
from ._client_answers import Ref
from ._client_calls import Calls
from ._client_errors import BadRequest
from ._client_infos import ScheduleInfo
from ._client_lines import entry
from ._client_requests import Duration, Limits, Payload
from ._client_steps import Call
from ._http import Request, path

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class ScheduleOptions(Limits, total=False):
    """Options of the jobs of a schedule."""

    priority: str
    attempts: int
    backoff: Duration
    max_backoff: Duration
    crashes: int
    idempotent: bool
    compensate: str
    bury: str
    group: str


def put(name: str, pool: str, payload: Payload, rule: Mapping[str, Any], options: Mapping[str, Any]) -> Request:
    """The request that makes a schedule."""
    for word in ("key", "delay", "at", "deadline", "then"):
        if options.get(word) is not None:
            raise BadRequest(f"{word}: leave it out, as a schedule enqueues many jobs", faults=[word])
    body: Dict[str, Any] = {key: value for key, value in rule.items() if value is not None}
    if "every" in body:
        body["every"] = requests.duration(body["every"])
    body["pool"] = pool
    body["job"] = json.loads(entry({**options, "payload": payload}, {}, {}).line)
    headers = (("Content-Type", "application/json"),)
    return Request("PUT", path("schedules", name), headers, json.dumps(body).encode("utf-8"))


def _one(calls: Calls, request: Request) -> Call[ScheduleInfo]:
    return infos.schedule(answers.load_object((yield from calls.ok(request, True))))


def _all(calls: Calls) -> Call[List[ScheduleInfo]]:
    data = answers.load_object((yield from calls.ok(Request("GET", path("schedules")), True)))
    return [infos.schedule(one) for one in answers.objects(data, "schedules")]


def _remove(calls: Calls, name: str) -> Call[None]:
    yield from calls.ok(Request("DELETE", path("schedules", name)), True)


def _run(calls: Calls, name: str) -> Call[Ref]:
    answer = yield from calls.ok(requests.post(path("schedules", name, "run")), False)
    return answers.ref(answers.load_object(answer))


class Schedules:
    """The calls of `Client` that are about schedules."""

    _calls: Calls

    def _drive(self, call: Call[T]) -> T:
        raise NotImplementedError

    def schedules(self) -> List[ScheduleInfo]:
        """All schedules, without the payloads of their jobs."""
        return self._drive(_all(self._calls))

    def schedule(self, name: str) -> ScheduleInfo:
        """One schedule."""
        return self._drive(_one(self._calls, Request("GET", path("schedules", name))))

    def put_schedule(self, name: str, pool: str, payload: Payload = b"", *, cron: Optional[str] = None,
                     every: Optional[Duration] = None, zone: Optional[str] = None, missed: Optional[str] = None,
                     overlap: Optional[str] = None, paused: Optional[bool] = None,
                     **options: "Unpack[ScheduleOptions]") -> ScheduleInfo:
        """Add a schedule, or replace it: a job at each tick of cron (five fields, in zone) or of every."""
        rule = {"cron": cron, "every": every, "zone": zone, "missed": missed, "overlap": overlap, "paused": paused}
        return self._drive(_one(self._calls, put(name, pool, payload, rule, options)))

    def remove_schedule(self, name: str) -> None:
        """Remove a schedule; its jobs stay. Raises Managed if it belongs to the server's configuration."""
        self._drive(_remove(self._calls, name))

    def pause_schedule(self, name: str) -> ScheduleInfo:
        """Pause a schedule; ticks during the pause do not count as missed."""
        return self._drive(_one(self._calls, requests.post(path("schedules", name, "pause"))))

    def resume_schedule(self, name: str) -> ScheduleInfo:
        """Resume a paused schedule, with its next tick."""
        return self._drive(_one(self._calls, requests.post(path("schedules", name, "resume"))))

    def run_schedule(self, name: str) -> str:
        """Enqueue a job of a schedule now and return its id. Raises Overlap if the last job has not ended and overlap is forbidden."""
        return self._drive(_run(self._calls, name)).id


class AsyncSchedules:
    """The calls of `AsyncClient` that are about schedules."""

    _calls: Calls

    async def _drive(self, call: Call[T]) -> T:
        raise NotImplementedError

    async def schedules(self) -> List[ScheduleInfo]:
        """All schedules, without the payloads of their jobs."""
        return await self._drive(_all(self._calls))

    async def schedule(self, name: str) -> ScheduleInfo:
        """One schedule."""
        return await self._drive(_one(self._calls, Request("GET", path("schedules", name))))

    async def put_schedule(self, name: str, pool: str, payload: Payload = b"", *, cron: Optional[str] = None,
                           every: Optional[Duration] = None, zone: Optional[str] = None, missed: Optional[str] = None,
                           overlap: Optional[str] = None, paused: Optional[bool] = None,
                           **options: "Unpack[ScheduleOptions]") -> ScheduleInfo:
        """Add a schedule, or replace it: a job at each tick of cron (five fields, in zone) or of every."""
        rule = {"cron": cron, "every": every, "zone": zone, "missed": missed, "overlap": overlap, "paused": paused}
        return await self._drive(_one(self._calls, put(name, pool, payload, rule, options)))

    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule; its jobs stay. Raises Managed if it belongs to the server's configuration."""
        await self._drive(_remove(self._calls, name))

    async def pause_schedule(self, name: str) -> ScheduleInfo:
        """Pause a schedule; ticks during the pause do not count as missed."""
        return await self._drive(_one(self._calls, requests.post(path("schedules", name, "pause"))))

    async def resume_schedule(self, name: str) -> ScheduleInfo:
        """Resume a paused schedule, with its next tick."""
        return await self._drive(_one(self._calls, requests.post(path("schedules", name, "resume"))))

    async def run_schedule(self, name: str) -> str:
        """Enqueue a job of a schedule now and return its id. Raises Overlap if the last job has not ended and overlap is forbidden."""
        return (await self._drive(_run(self._calls, name))).id
