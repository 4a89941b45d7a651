"""A server of the tests' own that speaks the HTTP API, with faults on demand."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from fake_batches import FakeBatches
from fake_schedules import FakeSchedules

PATIENCE = 10.0
Fault = Callable[["Handler"], None]


class Seen(NamedTuple):
    method: str
    path: str
    query: Dict[str, str]
    headers: Dict[str, str]
    body: bytes


class Kept:
    """A job of the server."""

    def __init__(self, id: str, pool: str, query: Dict[str, str], payload: bytes) -> None:
        self.id, self.pool, self.query, self.payload = id, pool, query, payload
        self.state = "queued"
        self.result = b""
        self.problem: Dict[str, Any] = {}
        self.meta: Dict[str, str] = {}
        self.parent = ""
        self.next = ""
        self.over = threading.Event()

    def end(self) -> None:
        task = self.query.get("task", "upper")
        if task == "fail":
            self.state, self.problem = "dead", failed(self.id)
        elif task == "expire":
            self.state = "dead"
            self.problem = {"cause": "ended-badly", "detail": "the job expired", "reason": "expired", "job": self.id}
        else:
            self.state, self.result = "done", self.payload.upper()
        self.over.set()

    def json(self) -> Dict[str, Any]:
        job: Dict[str, Any] = {"id": self.id, "pool": self.pool, "task": self.query.get("task", ""), "state": self.state,
                               "enqueued": "2026-01-31T08:00:00.123456789Z", "attempts": 1, "meta": self.meta, "future": [1]}
        if self.query.get("key"):
            job["key"] = self.query["key"]
        if self.parent:
            job["parent"] = self.parent
        if self.next and self.state == "done":
            job["next"] = self.next
        return job


def failed(id: str) -> Dict[str, Any]:
    return {"type": "urn:bullpen:problem:ended-badly", "title": "ended badly", "status": 422, "cause": "ended-badly",
            "detail": "the job failed: ValueError: no", "outcome": "failed", "reason": "final", "job": id, "attempts": 3,
            "failure": {"outcome": "failed", "task": "fail", "type": "ValueError", "message": "no", "stack": "line 1",
                        "worker": "w1", "exit_code": 3, "signal": "killed", "detail": "last words"}}


class Server(ThreadingHTTPServer):
    """Runs in a thread of its own between __enter__ and __exit__. Jobs of the task "slow" end when they are told to."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.jobs: Dict[str, Kept] = {}
        self.keys: Dict[str, str] = {}
        self.schedules: Dict[str, Dict[str, Any]] = {}
        self.members = 0  # of its batch
        self.status: Dict[str, Any] = {"version": "0.1.0", "ready": True}
        self.seen: List[Seen] = []
        self.faults: List[Optional[Fault]] = []
        self.token = ""
        self.paused = False
        self.connections = 0
        self.wait_most = PATIENCE
        self.gone = threading.Event()  # a fault that holds an answer has seen its client leave
        self.reached = threading.Event()  # such a fault has begun

    def __enter__(self) -> "Server":
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for job in self.jobs.values():
            job.over.set()
        self.shutdown()
        self.server_close()
        self.thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.lock:
            self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that leave are what the tests are about

    def add(self, pool: str, query: Dict[str, str], payload: bytes) -> Tuple[Kept, bool]:
        with self.lock:
            key = query.get("key", "")
            if key in self.keys:
                return self.jobs[self.keys[key]], True
            job = Kept(f"J{len(self.jobs)}", pool, query, payload)
            self.jobs[job.id] = job
            if key:
                self.keys[key] = job.id
        if query.get("task") != "slow":
            job.end()
        return job, False


class Handler(FakeSchedules, FakeBatches, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def serve(self) -> None:
        parts = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.words = [unquote(word) for word in parts.path.split("/")[2:]]
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.seen.append(Seen(self.command, parts.path, self.query,
                                         {name.lower(): value for name, value in self.headers.items()}, self.body))
            fault = self.server.faults.pop(0) if self.server.faults else None
        if fault is not None:
            fault(self)
        elif self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self.problem(401, "unauthorized", "a token is needed")
        else:
            self.route()

    do_GET = do_POST = do_PUT = do_DELETE = serve

    def route(self) -> None:
        name = "_".join([self.command.lower(), *self.words[:1], *(word for word in self.words[2:])])
        getattr(self, f"on_{name}", self.nothing)()

    def nothing(self) -> None:
        self.problem(404, "not-found", f"nothing at {self.path}")

    # Answers.

    def answer(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tell(self, status: int, data: object, **headers: str) -> None:
        self.answer(status, json.dumps(data).encode(), **headers)

    def problem(self, status: int, cause: str, detail: str, after: str = "", **more: object) -> None:
        data = {"type": f"urn:bullpen:problem:{cause}", "status": status, "cause": cause, "detail": detail, **more}
        extra = {"Retry_After": after} if after else {}
        self.answer(status, json.dumps(data).encode(), "application/problem+json", **extra)

    def chunked(self, status: int, pieces: List[bytes], kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x;x=y\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\nTrailer: 1\r\n\r\n")

    def cut(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    # Routes.

    def job(self) -> Optional[Kept]:
        found = self.server.jobs.get(self.words[1])
        if found is None:
            self.problem(404, "not-found", f"no job {self.words[1]}")
        elif "wait" in self.query:
            found.over.wait(min(float(self.query["wait"].rstrip("s")), self.server.wait_most))
        return found

    def result_of(self, job: Kept, pending: object) -> None:
        if not job.over.is_set():
            self.tell(202, pending, Location=f"/v1/jobs/{job.id}")
        elif job.state == "done":
            self.chunked(200, [job.result[:2], job.result[2:]] if len(job.result) > 2 else [job.result] if job.result else [])
        else:
            self.answer(422, json.dumps(job.problem or {"cause": "ended-badly", "outcome": "canceled", "job": job.id}).encode(),
                        "application/problem+json")

    def on_post_pools_jobs(self) -> None:
        if self.words[1] == "none":
            self.problem(404, "unknown-pool", "no such pool")
            return
        if "priority" in self.query and self.query["priority"] not in ("high", "normal", "low"):
            self.problem(400, "bad-request", "2 faults", faults=["priority is none", "second"])
            return
        job, existing = self.server.add(self.words[1], self.query, self.body)
        job.meta = dict(parse_qsl(self.headers.get("Bullpen-Meta", ""), errors="surrogateescape"))
        job.parent = self.headers.get("Bullpen-Parent", "")
        ref = {"id": job.id, "pool": job.pool, "state": job.state, "existing": existing}
        if "wait" not in self.query:
            self.tell(202, ref, Location=f"/v1/jobs/{job.id}")
            return
        job.over.wait(min(float(self.query["wait"].rstrip("s")), self.server.wait_most))
        self.result_of(job, ref)

    def on_post_pools_bulk(self) -> None:
        lines = []
        for line in self.body.splitlines():
            job = json.loads(line)
            if job.get("task") == "refused":
                lines.append({"error": {"cause": "full", "status": 429, "detail": "the queue is full"}})
                continue
            payload = job["payload"].encode() if "payload" in job else base64.b64decode(job.get("payload_base64", ""))
            kept, existing = self.server.add(self.words[1], job, payload)
            lines.append({"id": kept.id, "state": kept.state, "existing": existing})
        self.chunked(200, [json.dumps(line).encode() + b"\n" for line in lines], "application/x-ndjson")

    def on_post_pools_run(self) -> None:
        task = self.query.get("task", "")
        if task == "fail":
            self.answer(422, json.dumps(failed("")).encode(), "application/problem+json")
        elif task == "unknown":
            self.problem(422, "unknown-task", "no handler of that name")
        elif task == "refused":
            self.problem(422, "refused", "too much memory")
        elif self.words[1] == "durable":
            self.problem(403, "forbidden", "set ephemeral: true")
        elif self.query.get("chunks"):
            self.chunked(200, self.streamed(task), "text/event-stream")
        else:
            self.answer(200, self.body.upper(), "application/octet-stream", Bullpen_Task=self.query.get("id", "made"))

    def streamed(self, task: str) -> List[bytes]:
        """The events of a task whose result streams, as its name says."""
        def event(kind: str, data: object) -> bytes:
            return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()

        def payload(data: bytes) -> Dict[str, Any]:
            return {"payload_base64": base64.b64encode(data).decode(), "stats": {}}

        result = self.body.upper()
        pieces = [b": still running\n\n", event("log", {"text": "x"}), event("future", 1)]
        if task == "whole":
            return [*pieces, event("result", payload(result))]
        pieces += [event("chunk", payload(result[:1])), event("chunk", payload(b"")), event("chunk", payload(result[1:]))]
        ends = {"breaks": [], "odd": [event("chunk", {"payload_base64": "!"})], "list": [b"event: problem\ndata: []\n\n"],
                "midway": [event("problem", failed(""))]}
        return pieces + ends.get(task, [event("result", payload(b""))])

    def on_get_jobs(self) -> None:
        if len(self.words) > 1:
            job = self.job()
            if job is not None:
                self.tell(200, job.json())
            return
        found = [job for job in self.server.jobs.values()
                 if all(getattr(job, k, job.query.get(k)) in v.split(",") for k, v in self.query.items() if k in ("pool", "task", "state"))]
        self.page(found)

    def page(self, found: List[Kept]) -> None:
        begin, limit = int(self.query.get("after", "0")), int(self.query["limit"])
        data: Dict[str, Any] = {"jobs": [job.json() for job in found[begin:begin + limit]]}
        if begin + limit < len(found):
            data["next"] = str(begin + limit)
        self.tell(200, data)

    def on_get_jobs_result(self) -> None:
        job = self.job()
        if job is not None:
            self.result_of(job, job.json())

    def on_get_jobs_payload(self) -> None:
        job = self.job()
        if job is not None:
            self.answer(200, job.payload, "application/octet-stream")

    def on_post_jobs_cancel(self) -> None:
        job = self.job()
        if job is None:
            return
        if job.over.is_set():
            self.problem(409, "ended", "the job has ended", job=job.id)
            return
        job.state = "canceled"
        job.over.set()
        self.tell(200, job.json())

    def on_post_jobs_retry(self) -> None:
        job = self.job()
        if job is None:
            return
        if job.state != "dead":
            self.problem(409, "not-dead", "the job is not dead")
            return
        again, _ = self.server.add(job.pool, {"task": "upper"}, job.payload)
        self.tell(202, {"id": again.id, "pool": again.pool, "state": again.state})

    def on_get_jobs_events(self) -> None:
        job = self.job()
        if job is None:
            return
        events = [("state", {"state": "running", "attempt": 1}), ("progress", {"fraction": 0.5, "note": "half"}),
                  ("log", {"time": "2026-01-31T08:00:00Z", "level": 4, "stream": "log", "text": "hello\u2028you"}),
                  ("future", {"x": 1}), ("end", job.json())]
        after = self.headers.get("Last-Event-ID") or "1.0"
        begin = int(after.partition(".")[2])
        if begin >= len(events):
            self.answer(204)
            return
        pieces = [b": a comment\r\n\r\n"] + [f"event: {kind}\nid: 1.{i}\ndata: {json.dumps(data)}\n\n".encode()
                                           for i, (kind, data) in enumerate(events, 1) if i > begin]
        self.chunked(200, pieces, "text/event-stream")

    def pool_json(self, name: str, **more: object) -> Dict[str, Any]:
        return {"name": name, "state": "open", "paused": self.server.paused, "min": 1, "max": 4, "workers": {"idle": 1},
                "queued": 3, "outcomes": {"ok": 7}, "wait_p50": 0.001, **more}

    def on_get_pools(self) -> None:
        if len(self.words) > 1:
            self.tell(200, self.pool_json(self.words[1]))
        else:
            self.tell(200, {"pools": [self.pool_json("a"), self.pool_json("b")]})

    def on_post_pools_pause(self) -> None:
        self.server.paused = True
        self.on_get_pools()

    def on_post_pools_resume(self) -> None:
        self.server.paused = False
        self.on_get_pools()

    def on_post_pools_scale(self) -> None:
        self.tell(200, self.pool_json(self.words[1], **json.loads(self.body)))

    def on_post_pools_reload(self) -> None:
        self.problem(503, "start-failed", "the workers do not start: no such file", "1")

    def on_post_jobs(self) -> None:
        self.on_post_dead()

    def on_get_dead(self) -> None:
        if self.words[1:] == ["causes"]:
            self.tell(200, {"causes": [], "jobs": 0, "wanted": self.query})
            return
        if len(self.words) > 1:
            job = self.job()
            if job is not None:
                self.tell(200, {**job.json(), "payload_base64": base64.b64encode(job.payload).decode()})
            return
        self.page([job for job in self.server.jobs.values() if job.state == "dead"])

    def on_post_dead(self) -> None:
        wanted = json.loads(self.body)
        if not wanted:
            self.problem(400, "bad-request", "name a filter, or all", faults=["name a filter, or all"])
        else:
            self.tell(200, {"count": 2, "more": False, "verb": self.words[1], "wanted": wanted})

    def on_post_dead_retry(self) -> None:
        self.on_post_jobs_retry()

    def on_delete_dead(self) -> None:
        with self.server.lock:
            found = self.server.jobs.pop(self.words[1], None)
        if found is None:
            self.problem(404, "not-found", "no such job")
        else:
            self.answer(204)

    def on_delete_run(self) -> None:
        self.answer(204)

    def on_get_status(self) -> None:
        self.tell(200, self.server.status)

    def on_post_reload(self) -> None:
        self.problem(422, "bad-config", "the configuration is faulty", faults=["bullpen.yaml:3: unknown key"])


def slow(handler: Handler) -> None:
    """Begin an answer, and never end it."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab")
    handler.server.reached.set()
    handler.connection.settimeout(PATIENCE)
    try:
        assert handler.connection.recv(1) == b""
    except ConnectionError:
        pass
    handler.server.gone.set()
    handler.close_connection = True
