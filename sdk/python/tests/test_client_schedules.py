"""The calls of the clients that are about schedules, each case for both."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Iterator

import pytest
from bullpen import client as api
from bullpen._client_schedules import AsyncSchedules, Schedules
from client_kinds import KINDS, make
from fake_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


@pytest.fixture(params=KINDS)
def client(request: Any, server: Server) -> Iterator[Any]:
    with make(request.param, server.url, timeout=5.0) as one:
        yield one


def test_put(client: Any, server: Server) -> None:
    made = client.put_schedule("a.b", "reports", b"\xff", every="5m", overlap="forbid", task="t", attempts=2, idempotent=True,
                               meta={"k": "v"}, timeout=1.5)
    assert (made.name, made.pool, made.every, made.overlap, made.paused) == ("a.b", "reports", 300.0, "forbid", False)
    assert made.next == datetime(2026, 1, 30, 23, 5, tzinfo=timezone.utc) == made.upcoming[0] and len(made.upcoming) == 2
    assert (made.cron, made.last, made.fired, made.raw["job"]["task"]) == ("", None, 0, "t")
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.headers["content-type"]) == ("PUT", "/v1/schedules/a.b", "application/json")
    assert json.loads(seen.body) == {
        "pool": "reports", "every": "5m", "overlap": "forbid",
        "job": {"payload_base64": "/w==", "task": "t", "attempts": 2, "idempotent": True, "meta": {"k": "v"}, "timeout": "1.5s"}}
    client.put_schedule("a", "reports", "text", cron="@daily", zone="Europe/Berlin", missed="all", paused=False)
    assert json.loads(server.seen[1].body) == {
        "pool": "reports", "cron": "@daily", "zone": "Europe/Berlin", "missed": "all", "paused": False, "job": {"payload": "text"}}
    for bad in ({"key": "k"}, {"delay": 1}, {"then": "t"}, {"tsak": "t"}):
        with pytest.raises(api.BadRequest):
            client.put_schedule("a", "reports", **bad)


def test_others(client: Any) -> None:
    client.put_schedule("a", "reports", every=60)
    assert [one.name for one in client.schedules()] == ["a"]
    assert client.pause_schedule("a").paused and not client.resume_schedule("a").paused
    assert client.run_schedule("a") == "J0"
    with pytest.raises(api.Overlap):
        client.run_schedule("a")
    client.remove_schedule("a")
    for call in (client.schedule, client.run_schedule, client.remove_schedule):
        with pytest.raises(api.NotFound):
            call("a")
    client.put_schedule("config", "reports", every=60)
    with pytest.raises(api.Managed):
        client.remove_schedule("config")


def test_both_have_the_same_calls() -> None:
    def calls(kind: type) -> Any:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert calls(Schedules) == calls(AsyncSchedules)
