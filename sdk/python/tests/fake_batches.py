"""The chains and batches of the fake server."""

from __future__ import annotations

import json
from typing import Any, Dict


class FakeBatches:
    """A part of fake_server.Handler. The jobs of a chain end as soon as they are there, and each names the next."""

    server: Any
    words: Any
    body: bytes
    tell: Any
    problem: Any

    def on_post_chains(self) -> None:
        jobs = [self.server.add(job.get("pool", ""), job, job.get("payload", "").encode())[0] for job in json.loads(self.body)["jobs"]]
        for before, job in zip(jobs, jobs[1:]):
            before.next = job.id
            if before.state == "done" and job.state == "done":
                job.result = before.result + b"!"
        self.tell(202, {"id": jobs[0].id, "pool": jobs[0].pool, "state": jobs[0].state})

    def on_post_batches(self) -> None:
        if len(self.words) > 1:  # sealed
            self.on_get_batches()
            return
        body = json.loads(self.body)
        self.tell(201, {"id": "B1", "state": "open", "total": 0, "key": body.get("key", ""), "meta": body.get("meta", {})})

    def on_post_batches_jobs(self) -> None:
        jobs = [self.server.add("p", json.loads(line), b"")[0] for line in self.body.splitlines()]
        self.server.members += len(jobs)
        self.answer(200, b"".join(json.dumps({"id": job.id, "state": job.state}).encode() + b"\n" for job in jobs), "application/x-ndjson")

    answer: Any

    def on_post_batches_seal(self) -> None:
        self.on_get_batches()

    def on_get_batches(self) -> None:
        n = self.server.members
        found: Dict[str, Any] = {
            "id": "B1", "state": "done", "total": n, "ended": n, "ok": n - 1, "failed": 1, "canceled": 0, "key": "import-8",
            "created": "2026-01-31T08:00:00Z", "ended_at": "2026-01-31T08:00:01Z", "first_failed": "J0", "then_id": "J9",
            "meta": {"by": "me"}, "future": 1}
        self.tell(200, found)
