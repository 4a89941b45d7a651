"""What follows a job, and what is told of batches and of the server, each case for both clients."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Dict, Iterator, List

import pytest
from bullpen import client as api
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


def sent(server: Server) -> Any:
    return json.loads(server.seen[-1].body)


@pytest.mark.parametrize("then,links", [
    ("extract", [{"task": "extract"}]),
    ("index@search", [{"task": "index", "pool": "search"}]),
    ("@search", [{"pool": "search"}]),
    (["extract", "index@search"], [{"task": "extract"}, {"task": "index", "pool": "search"}]),
    ({"task": "send", "pool": "mail", "delay": 60, "attempts": 2}, [{"task": "send", "delay": "60s", "attempts": 2, "pool": "mail"}]),
    (("extract", {"task": "send"}), [{"task": "extract"}, {"task": "send"}]),
])
def test_then(client: Any, server: Server, then: Any, links: List[Dict[str, Any]]) -> None:
    job = client.enqueue("pages", "https://example.org", task="fetch", key="k", then=then)
    assert (server.seen[-1].path, job.id) == ("/v1/chains", "J0")
    first = {"payload": "https://example.org", "task": "fetch", "key": "k", "pool": "pages"}
    assert sent(server)["jobs"] == [first, *links]
    found = list(client.enqueue_many("pages", [{"payload": b"x", "then": then}]))
    assert len(found) == 1 and sent(server) == {"payload_base64": "eA==", "then": links}
    client.chain("pages", ["x", {"task": "second"}], then=then)
    assert sent(server)["jobs"] == [{"payload": "x", "pool": "pages"}, {"task": "second"}, *links]


def test_nothing_follows(client: Any, server: Server) -> None:
    for then in (None, [], ""):
        assert client.enqueue("pages", "x", then=then).result() == b"X"
        assert client.run("pages", "x", then=then) == b"X"
    assert all(seen.path.startswith(("/v1/pools/", "/v1/jobs/")) for seen in server.seen)


@pytest.mark.parametrize("then", ["extract@", ["a", ""], 7, [b"a"], b"a", [{"tsak": "a"}]])
def test_what_cannot_follow(client: Any, server: Server, then: Any) -> None:
    for call in (client.enqueue, client.run):
        with pytest.raises(api.BadRequest) as caught:
            call("pages", "x", then=then)
        assert caught.value.faults
    assert not server.seen


def test_nobody_waits_for_what_others_follow(client: Any) -> None:
    with pytest.raises(api.BadRequest, match="parent"):
        client.enqueue("pages", "x", then="a", parent="J1")
    with pytest.raises(api.BadRequest, match="unknown option 'then'"):
        client.run_ephemeral("pages", "x", then="a")


def test_the_last_result(client: Any, server: Server) -> None:
    assert client.run("pages", "x", then=["second", "third"]) == b"X!!"
    assert client.chain_result("J0", 5) == b"X!!"
    with pytest.raises(api.JobFailed) as caught:
        client.run("pages", "x", then=["fail", "third"])
    assert caught.value.id == "J4"
    with pytest.raises(api.NotFound):
        client.chain_result("nobody", 5)
    client.enqueue("pages", "x", task="slow", then="second")
    with pytest.raises(api.NotEnded):
        client.run("pages", "x", task="slow", then="second", wait=0.01)


def test_the_next_may_take_a_moment(client: Any, server: Server) -> None:
    client.enqueue("pages", "x", then="second")
    second = server.jobs.pop("J1")
    server.faults = [None, None, lambda handler: (server.jobs.update(J1=second), handler.problem(404, "not-found", "not yet"))]
    assert client.chain_result("J0", 5) == b"X!"
    assert not server.faults


def test_batch(client: Any, server: Server) -> None:
    made = client.batch("p", [b"a", b"b"], key="import-8", then="report@mail", failed={"task": "alarm", "payload": "now"}, meta={"by": "me"})
    assert json.loads(server.seen[0].body) == {
        "pool": "p", "then": {"task": "report", "pool": "mail"}, "failed": {"task": "alarm", "payload": "now"}, "key": "import-8",
        "meta": {"by": "me"}}
    assert (made.id, made.key, made.state, made.total, made.ended, made.ok, made.failed) == ("B1", "import-8", "done", 2, 2, 1, 1)
    assert (made.canceled, made.lost, made.first_failed, made.then_id, made.failed_id) == (0, 0, "J0", "J9", "")
    assert made.over and made.created == datetime(2026, 1, 31, 8, tzinfo=timezone.utc) and made.meta == {"by": "me"}
    assert made.raw["future"] == 1 and not made.existing
    assert client.get_batch("B1") == made
    for then in ("a@", b"payload", 7):
        with pytest.raises(api.BadRequest):
            client.batch("p", [b"a"], then=then)


def test_status(client: Any, server: Server) -> None:
    server.status = {"version": "1", "uptime": 3, "ready": True, "live": True, "stopping": False, "future": 1,
                     "store": {"kind": "embedded", "durability": "synced", "jobs": {"messages": 1}},
                     "queue": {"enqueued": 5, "ended": {"ok": 4}}}
    found = client.status()
    assert (found.version, found.uptime, found.ready, found.live, found.stopping, found.node) == ("1", 3.0, True, True, False, "")
    assert (found.store.kind, found.store.durability, found.store.raw["jobs"]) == ("embedded", "synced", {"messages": 1})
    assert (found.queue, found.ended, found.raw["future"]) == ({"enqueued": 5}, {"ok": 4}, 1)


@pytest.mark.parametrize("call,answer", [
    (lambda c: c.get_batch("B"), {"state": "done"}), (lambda c: c.get_batch("B"), {"id": "B", "state": "done", "total": "7"}),
    (lambda c: c.schedule("s"), {"pool": "p"}), (lambda c: c.schedule("s"), {"name": "s", "upcoming": ["soon"]}),
    (lambda c: c.status(), {"store": 7}), (lambda c: c.status(), {"uptime": "long"}),
])
def test_odd_answers(client: Any, server: Server, call: Any, answer: Any) -> None:
    server.faults = [lambda handler: handler.tell(200, answer)]
    with pytest.raises(api.BadAnswer):
        call(client)
