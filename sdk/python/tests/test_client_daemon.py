"""The clients against a real server, where the environment names one.

BULLPEN_TEST_URL is its address, BULLPEN_TEST_TOKEN an admin's token and
BULLPEN_TEST_CA the certificates to trust, where it wants them. It has a pool
BULLPEN_TEST_POOL ("python" without it) with ``ephemeral: true`` and at least one
worker of this file: ``python3 sdk/python/tests/test_client_daemon.py``, protocol frames.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import Any, Iterator

URL = os.environ.get("BULLPEN_TEST_URL", "")
TOKEN = os.environ.get("BULLPEN_TEST_TOKEN") or None
CA = os.environ.get("BULLPEN_TEST_CA") or None
POOL = os.environ.get("BULLPEN_TEST_POOL", "python")

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import bullpen

    @bullpen.task
    def upper(data: bytes) -> bytes:
        return data.upper()

    @bullpen.task
    def fails(data: bytes) -> bytes:
        raise ValueError(data.decode())

    @bullpen.task
    def no(data: bytes) -> bytes:
        raise bullpen.Failed(data.decode(), retry=False)

    @bullpen.task
    def exits(data: bytes) -> bytes:
        sys.exit(7)

    @bullpen.task
    def sleeps(data: bytes) -> bytes:
        time.sleep(float(data))
        return b"slept"

    @bullpen.task
    def steps(data: bytes, task: bullpen.Task) -> bytes:
        for i in range(3):
            task.progress(i / 2, f"step {i}")
            print("line", i)
        time.sleep(1)  # so that a reader finds it running; what a job of some milliseconds said is not kept
        return task.meta.get("user", "").encode()

    @bullpen.task
    def streams(data: bytes) -> Iterator[bytes]:
        """Streams the words of the payload; each is sent when the last one has been awaited as long as it says."""
        for word in data.split():
            if word == b"fail":
                raise bullpen.Failed("in the middle")
            if word == b"wait":
                time.sleep(30)
            yield word

    @bullpen.task
    def nests(data: bytes, task: bullpen.Task) -> bytes:
        """Waits for jobs of its own pool; the payload is the server's address."""
        from bullpen.client import Client

        url, _, rest = data.decode().partition(" ")
        pool, token, ca = rest.split(",")
        with Client(url, token or None, ca=ca or None) as client:
            return client.run(pool, b"child", task="upper") + client.run_ephemeral(pool, b"-e", task="upper")

    bullpen.run()

import pytest  # noqa: E402
from bullpen import client as api  # noqa: E402
from client_kinds import KINDS, make  # noqa: E402

pytestmark = pytest.mark.skipif(not URL, reason="BULLPEN_TEST_URL names no server")


@pytest.fixture(params=KINDS)
def client(request: Any) -> Iterator[Any]:
    with make(request.param, URL, TOKEN, ca=CA) as one:
        yield one


def test_schedules(client: Any) -> None:
    name = "s." + uuid.uuid4().hex
    made = client.put_schedule(name, POOL, b"ab\xff", cron="30 2 * * *", zone="Europe/Berlin", overlap="forbid",
                               task="upper", attempts=2, timeout=30, meta={"a": "b"}, group="acme", bury="upper")
    assert (made.raw["job"]["group"], made.raw["job"]["bury"]) == ("acme", "upper")
    assert made.raw["job"]["payload_base64"] == "YWL/" and made.raw["job"]["timeout"] == 30 and len(made.upcoming) == 3
    assert (made.name, made.cron, made.zone, made.overlap) == (name, "30 2 * * *", "Europe/Berlin", "forbid")
    assert client.wait(client.run_schedule(name), 60).outcome == "ok"
    assert client.pause_schedule(name).paused and client.resume_schedule(name).next
    client.remove_schedule(name)
    with pytest.raises(api.NotFound):
        client.schedule(name)


def test_results(client: Any) -> None:
    assert client.run(POOL, b"ab", task="upper") == b"AB"
    assert client.run_ephemeral(POOL, b"ab", task="upper", timeout=30, id=uuid.uuid4().hex) == b"AB"
    job = client.enqueue(POOL, "cd", task="upper", key=uuid.uuid4().hex, priority="high", delay=0.05)
    assert job.result(60) == b"CD"
    info = job.info()
    assert (info.state, info.outcome, info.pool, info.task, info.priority) == ("done", "ok", POOL, "upper", "high")
    assert info.enqueued is not None and info.ended is not None and info.ended >= info.enqueued
    again = client.enqueue(POOL, "ef", task="upper", key=info.key)
    assert again.existing and again.id == job.id
    later = client.enqueue(POOL, b"payload", task="upper", meta={"a": "b c&d", "raw": "\u00e4"}, delay=3600)
    assert (later.info().state, later.info().meta) == ("scheduled", {"a": "b c&d", "raw": "\u00e4"})
    assert client.payload(later.id) == b"payload" and later.cancel().over


def test_large_payloads(client: Any) -> None:
    payload = os.urandom(300_000)
    assert client.run(POOL, payload, task="upper", wait=60) == payload.upper()
    assert client.run_ephemeral(POOL, payload * 3, task="upper") == payload.upper() * 3


def test_failures(client: Any) -> None:
    with pytest.raises(api.JobFailed) as caught:
        client.run(POOL, b"why", task="fails", attempts=1)
    error = caught.value
    assert (error.outcome, error.type, error.message, error.attempts) == ("failed", "ValueError", "why", 1)
    assert "fails" in error.stack and error.id
    with pytest.raises(api.JobFailed) as caught:
        client.run(POOL, b"never", task="no")
    assert (caught.value.outcome, caught.value.message, caught.value.reason) == ("failed", "never", "final")
    dead = client.get_dead(caught.value.id)
    assert dead.state == "dead" and dead.id in [info.id for info in client.list_dead(pool=POOL, task="no")]
    again = client.retry(dead.id)
    assert again.id != dead.id and again.wait(60).state == "dead"
    client.remove_dead(again.id)
    with pytest.raises(api.JobFailed) as caught:
        client.run_ephemeral(POOL, b"", task="exits")
    assert (caught.value.outcome, caught.value.exit_code) == ("crashed", 7)
    with pytest.raises(api.JobFailed) as caught:
        client.run_ephemeral(POOL, b"30", task="sleeps", timeout=0.2)
    assert caught.value.outcome == "timeout"


def test_streamed_results(client: Any) -> None:
    assert b"".join(client.stream(POOL, b"a b c", task="streams")) == b"abc"
    assert client.run_ephemeral(POOL, b"a b c", task="streams") == b"abc" == client.run(POOL, b"a b c", task="streams")
    assert list(client.stream(POOL, b"ab", task="upper")) == [b"AB"]
    assert list(client.stream(POOL, b"", task="upper")) == []
    large = os.urandom(1 << 20)
    assert b"".join(client.stream(POOL, large.hex(), task="streams")) == large.hex().encode()
    pieces = client.stream(POOL, b"a wait", task="streams")
    begun = time.monotonic()
    assert next(pieces) == b"a" and time.monotonic() - begun < 20  # it comes while the task runs
    pieces.close()
    for data, options, outcome in ((b"a fail", {}, "failed"), (b"a wait", {"timeout": 0.2}, "timeout"),
                                   (b"a bc", {"output": 2}, "output")):
        pieces = client.stream(POOL, data, task="streams", **options)
        assert next(pieces) == b"a"
        with pytest.raises(api.JobFailed) as caught:
            list(pieces)
        assert caught.value.outcome == outcome
    with pytest.raises(api.UnknownTask):
        list(client.stream(POOL, b"", task="no-such-task"))


def test_refusals(client: Any) -> None:
    with pytest.raises(api.NotFound):
        client.get("no-such-job")
    with pytest.raises(api.NotFound):
        client.enqueue("no-such-pool", b"")
    with pytest.raises(api.BadRequest) as caught:
        client.enqueue(POOL, b"", priority="urgent", delay="soon")
    assert len(caught.value.faults) >= 2
    with pytest.raises(api.UnknownTask):
        client.run_ephemeral(POOL, b"", task="no-such-task")


def test_waits_and_cancels(client: Any) -> None:
    job = client.enqueue(POOL, b"60", task="sleeps")
    with pytest.raises(api.NotEnded):
        job.result(0.3)
    job.cancel()
    assert job.wait(60).state == "canceled"
    with pytest.raises(api.JobFailed) as caught:
        job.result()
    assert caught.value.outcome == "canceled"
    done = client.enqueue(POOL, b"x", task="upper")
    done.result(60)
    with pytest.raises(api.Ended):
        done.cancel()
    assert client.retry(done.id).result(60) == b"X"


def test_events(client: Any) -> None:
    job = client.enqueue(POOL, b"", task="steps", meta={"user": "me"}, delay=0.5)
    events = list(job.follow())
    assert events[-1].kind == "end" and events[-1].job.over
    assert [event.progress.note for event in events if event.progress][-1:] == ["step 2"]
    assert [event.log.text for event in events if event.log and event.log.text.startswith("line")] == ["line 0", "line 1", "line 2"]
    assert job.result() == b"me"
    assert list(client.follow(job.id))[-1].kind == "end"


def test_bulk_and_lists(client: Any) -> None:
    mark = uuid.uuid4().hex
    given = [{"payload": f"{mark}-{i}", "task": "upper"} for i in range(700)]
    jobs = list(client.enqueue_many(POOL, given + [{"task": "upper", "priority": "urgent"}]))
    assert isinstance(jobs.pop(), api.BadRequest)
    assert [job.result(60) for job in jobs[::100]] == [f"{mark}-{i}".upper().encode() for i in range(0, 700, 100)]
    listed = {info.id for info in client.list(pool=POOL, task="upper", page=200)}
    assert {job.id for job in jobs[-50:]} <= listed


def test_chains_and_batches(client: Any) -> None:
    job = client.chain(POOL, [{"payload": "x", "task": "upper"}, {"task": "upper"}])
    assert job.result(60) == b"X"
    following = job.info().raw["next"]
    assert client.result(following, 60) == b"X"
    assert client.run(POOL, "x", task="upper", then=["upper", f"upper@{POOL}", {"task": "upper"}], wait=60) == b"X"
    bulk = [one for one in client.enqueue_many(POOL, [{"payload": "y", "task": "upper", "then": "upper"}])]
    assert client.chain_result(bulk[0].id, 60) == b"Y"
    key = uuid.uuid4().hex
    jobs = [{"payload": str(i), "task": "no" if i == 7 else "upper"} for i in range(700)]
    made = client.batch(POOL, jobs, key=key, then="upper", failed={"task": "upper"}, meta={"a": "b"}, priority="high")
    assert made.total == 700
    ended = client.get_batch(made.id, 60)
    assert (ended.state, ended.ok, ended.failed, ended.meta) == ("done", 699, 1, {"a": "b"})
    assert b'"TOTAL":700' in client.result(ended.then_id, 60)
    assert client.batch(POOL, jobs, key=key).existing


def test_nested(client: Any) -> None:
    data = f"{URL} {POOL},{TOKEN or ''},{CA or ''}"
    assert client.run(POOL, data, task="nests", attempts=1, timeout=30) == b"CHILD-E"


def test_server(client: Any) -> None:
    assert client.status().version and client.status().store.kind
    assert POOL in [pool.name for pool in client.pools()]
    assert client.pause(POOL).paused
    assert not client.resume(POOL).paused
    assert client.scale(POOL, max=client.pool(POOL).max).name == POOL
