"""What a client does: each call as a generator of steps, which something with input and output carries out."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _client_answers as answers
from . import _client_errors as errors
from . import _client_infos as infos
from . import _client_requests as requests
from ._client_answers import JobInfo, PoolInfo, Ref
from ._client_infos import BatchInfo, StatusInfo
from ._client_lines import Batch, Entry, link, links, member
from ._client_requests import Payload, duration
from ._client_steps import Backoff, Broken, Call, Caller, Emit, Exchange, Open, Pause, Read, Stream, Timer, lost, unconfirmed
from ._http import Answer, Request, path

SLICE = 30.0  # seconds that one request waits for a job; longer waits are continued
_NESTED_SLICE = 600.0  # the most that a server waits if it is not told otherwise
_MARGIN = 5.0  # seconds that an answer may take at least
_QUIET = 45.0  # seconds without a byte after which a stream of events is broken; the server sends one each 15
_EVENT_BYTES = 8 << 20


class Calls(Caller):
    """All calls of a client."""

    # Submitting.

    def enqueue(self, pool: str, payload: Payload, options: Mapping[str, Any]) -> Call[Ref]:
        """Submit a job and go on, with those that follow it."""
        if "then" in options:
            options, then = {key: value for key, value in options.items() if key != "then"}, options["then"]
            if then:
                return (yield from self._followed(pool, payload, options, then))
        answer = yield from self.ok(requests.submit(pool, "jobs", payload, options), bool(options.get("key")))
        return answers.ref(answers.load_object(answer))

    def run(self, pool: str, payload: Payload, options: Mapping[str, Any], wait: Optional[float]) -> Call[bytes]:
        """Submit a job and wait for its result."""
        user = Timer(wait)
        if options.get("then"):
            first = yield from self.enqueue(pool, payload, options)
            return (yield from self.chain_result(first.id, user.within()))
        # The server lends the pool of a task that waits a worker, but for this request only.
        part = user.left(_NESTED_SLICE if requests.as_parent(options.get("parent")) else SLICE)
        options = {key: value for key, value in options.items() if key != "then"}
        request = requests.submit(pool, "jobs", payload, options, part)
        answer = yield from self.exchange(request, bool(options.get("key")), part)
        if answer.status == 200:
            return answer.body
        if answer.status != 202:
            raise answers.error_of(answer)
        found = answers.ref(answers.load_object(answer))
        if user.left() == 0.0:
            raise _not_ended(found.id)
        return (yield from self.result(found.id, user.within(), options.get("parent")))

    def run_ephemeral(self, pool: str, payload: Payload, options: Mapping[str, Any], wait: Optional[float]) -> Call[bytes]:
        """Run a task past the queue."""
        request = requests.submit(pool, "run", payload, options)
        answer = yield from self.exchange(request, False, None if wait is None else 0.0, wait, lost)
        if answer.status == 200:
            return answer.body
        raise answers.error_of(answer)

    def stream(self, pool: str, payload: Payload, options: Mapping[str, Any], most: int) -> Stream:
        """Run a task past the queue, and hand out the pieces of its result, each of at most most bytes."""
        request = requests.submit(pool, "run", payload, {**options, "chunks": True})
        request = request._replace(headers=(*request.headers, ("Accept", "text/event-stream")))
        answer = yield from self.exchange(request, False, unsure=lost, step=_open_quiet)
        if answer.status != 200:
            raise answers.error_of(answer)
        parser = answers.Events(most * 4 // 3 + _EVENT_BYTES)
        while True:
            try:
                data = yield Read(_QUIET)
            except Broken as broken:
                raise lost(f"the connection to {self.address} broke: {broken}") from None
            for kind, _, text in parser.feed(data):
                if kind in ("chunk", "result"):
                    piece = answers.piece(text)
                    if piece:
                        yield Emit(piece)
                elif kind == "problem":
                    raise answers.problem(answers.load_dict(text))
                if kind == "result":
                    return
            if not data:
                raise lost(f"{self.address} ended the answer before the result")

    def chain(self, pool: str, items: Sequence[Any], options: Mapping[str, Any]) -> Call[Ref]:
        """Submit jobs that run one after the other."""
        trace = dict(requests.here().trace)
        defaults = {key: value for key, value in options.items() if key not in ("key", "parent", "then")}
        jobs = [member(item, defaults, trace) for item in items]
        if jobs:
            jobs[0]["pool"] = pool
            if options.get("key"):
                jobs[0]["key"] = options["key"]
            for job in jobs[1:]:
                if not (job.get("payload") or job.get("payload_base64")):
                    job.pop("payload", None)
            jobs += links(options.get("then") or [], trace)
        return (yield from self._chained(jobs))

    def _followed(self, pool: str, payload: Payload, options: Mapping[str, Any], then: Any) -> Call[Ref]:
        """Submit a job with those that follow it."""
        if options.get("parent"):
            raise errors.BadRequest("parent cannot be combined with then: leave it out", faults=["parent"])
        trace = dict(requests.here().trace)
        first = {key: value for key, value in options.items() if key != "parent"}
        return (yield from self._chained([member({**first, "payload": payload, "pool": pool}, {}, trace), *links(then, trace)]))

    def _chained(self, jobs: List[Dict[str, Any]]) -> Call[Ref]:
        keyed = bool(jobs and jobs[0].get("key"))
        answer = yield from self.ok(requests.post(path("chains"), {"jobs": jobs}), keyed)
        return answers.ref(answers.load_object(answer))

    def chain_result(self, id: str, timeout: Optional[float]) -> Call[bytes]:
        """Wait for the result of the last job of a chain."""
        user, backoff = Timer(timeout), Backoff()
        there: Optional[Timer] = None  # within it the one that follows is to be found
        while True:
            try:
                result = yield from self.result(id, user.within())
                id = answers.field((yield from self.get(id)).raw, "next", str)
            except errors.NotFound:
                delay = backoff.delay()
                if there is None or min(there.left(), user.left()) <= delay:
                    raise
                yield Pause(delay)
                continue
            if not id:
                return result
            there, backoff = Timer(self.timeout), Backoff()

    def batch(self, pool: str, items: Iterable[Any], order: Mapping[str, Any], options: Mapping[str, Any]) -> Call[BatchInfo]:
        """Submit jobs that are counted together."""
        trace = dict(requests.here().trace)
        body: Dict[str, Any] = {"pool": pool}
        for name in ("then", "failed"):
            if order.get(name) is not None:
                body[name] = link(order[name], trace)
        body.update({name: order[name] for name in ("key", "meta") if order.get(name)})
        made = answers.load_object((yield from self.ok(requests.post(path("batches"), body), bool(order.get("key")))))
        if made.get("state") != "open":
            return infos.batch(made)
        id, at, piece = answers.field(made, "id", str), 0, Batch(options, True)
        for item in items:
            if piece.add(item):
                at = yield from self._add(pool, id, at, piece)
        if piece.entries:
            at = yield from self._add(pool, id, at, piece)
        answer = yield from self.ok(requests.post(path("batches", id, "seal"), {"total": at}), True)
        return infos.batch(answers.load_object(answer))

    def _add(self, pool: str, id: str, at: int, piece: Batch) -> Call[int]:
        """Add jobs to an open batch; the number behind the last."""
        for one in (yield from self.bulk(pool, *piece.take(), batch=(id, at))):
            if isinstance(one, errors.ClientError):
                raise one
            at += 1
        return at

    def get_batch(self, id: str, timeout: Optional[float]) -> Call[BatchInfo]:
        """The state of a batch, after waiting for its end."""
        user, backoff = Timer(timeout), Backoff()
        while True:
            part, begun = user.left(SLICE), time.monotonic()
            request = Request("GET", path("batches", id, query=[("wait", duration(part))]))
            found = answers.load_object((yield from self.ok(request, True, part)))
            if found.get("ended_at") and ("then" not in found or found.get("then_id")) or user.left() == 0.0:
                return infos.batch(found)
            if time.monotonic() - begun < part / 2:  # the server did not wait: it is about to stop
                yield Pause(user.left(backoff.delay()))

    def bulk(self, pool: str, entries: List[Entry], headers: Tuple[Tuple[str, str], ...], batch: Optional[Tuple[str, int]] = None
             ) -> Call[List[Union[Ref, errors.ClientError]]]:
        """Submit many jobs, or add them to a batch from a number on. Yields the result of each, in order; raises if none was accepted."""
        results: Dict[int, Union[Ref, errors.ClientError]] = {}
        pending = list(range(len(entries)))
        timer, backoff = Timer(self.timeout), Backoff()
        headers += (("Content-Type", "application/x-ndjson"),)
        while pending:
            why = "the answer ends too early"
            body = b"".join([entries[i].line for i in pending])
            where = path("pools", pool, "bulk")
            if batch is not None:
                where = path("batches", batch[0], "jobs", query=[("offset", str(batch[1] + pending[0])), ("pool", pool)])
            request = Request("POST", where, headers, body)
            try:
                answer = yield Exchange(request, timer.within())
            except Broken as broken:
                why, answer = f"the connection to {self.address} broke: {broken}", broken.partial
                if not broken.sent and not self.met:
                    raise self.unreachable(str(broken)) from None
                taken = broken.sent
            else:
                self.met, taken = True, answer.status == 200
                after, unsure = self.retry_after(answer, False)
                if unsure:
                    taken, why = True, f"{self.address} answers with status {answer.status}"
                elif after is not None and timer.left() > after:
                    yield Pause(backoff.delay(after))
                    continue
                elif not taken:
                    if not results:
                        raise answers.error_of(answer)
                    results.update({i: answers.error_of(answer) for i in pending})
                    break
            if answer is not None and answer.status == 200:
                for line in answer.body.split(b"\n")[:-1]:
                    if line.strip() and pending:
                        results[pending.pop(0)] = _bulk_line(line)
            delay = backoff.delay()
            again = timer.left() > delay
            for i in [i for i in pending if not again or taken and not entries[i].keyed]:
                results[i] = unconfirmed(why) if taken else self.unreachable(why)
            pending = [i for i in pending if i not in results]
            if pending:
                yield Pause(delay)
        return [results[i] for i in range(len(entries))]

    # Jobs.

    def get(self, id: str) -> Call[JobInfo]:
        """Get the information about a job."""
        answer = yield from self.ok(Request("GET", path("jobs", id)), True)
        return answers.job(answers.load_object(answer))

    def payload(self, id: str) -> Call[bytes]:
        """A job's payload."""
        return (yield from self.ok(Request("GET", path("jobs", id, "payload")), True)).body

    def wait(self, id: str, timeout: Optional[float], parent: Optional[str] = None) -> Call[JobInfo]:
        """Wait for a job's end."""
        answer = yield from self._held(id, ("jobs", id), timeout, parent, _is_over)
        return answers.job(answers.load_object(answer))

    def result(self, id: str, timeout: Optional[float], parent: Optional[str] = None) -> Call[bytes]:
        """Wait for a job's result."""
        answer = yield from self._held(id, ("jobs", id, "result"), timeout, parent, _has_result)
        return answer.body

    def _held(self, id: str, words: Tuple[str, ...], timeout: Optional[float], parent: Optional[str],
              ended: Callable[[Answer], bool]) -> Call[Answer]:
        """Ask until the job has ended, with requests that the server holds back."""
        user, backoff, headers = Timer(timeout), Backoff(), requests.as_parent(parent)
        while True:
            part = user.left(SLICE)
            begun = time.monotonic()
            request = Request("GET", path(*words, query=[("wait", duration(part))]), headers)
            limit = None if timeout is None else max(user.left(), _MARGIN)
            if limit is not None and self.timeout is not None:
                limit = min(limit, self.timeout)
            answer = yield from self.exchange(request, True, part, limit)
            if answer.status >= 300:
                raise answers.error_of(answer)
            if ended(answer):
                return answer
            if user.left() == 0.0:
                raise _not_ended(id)
            if time.monotonic() - begun < part / 2:  # the server did not wait: it is about to stop
                yield Pause(user.left(backoff.delay()))
            else:
                backoff = Backoff()

    def cancel(self, id: str) -> Call[JobInfo]:
        """Cancel a job. A canceled job stays unchanged."""
        try:
            answer = yield from self.ok(requests.post(path("jobs", id, "cancel")), True)
        except errors.Ended:
            found = yield from self.get(id)
            if found.state != "canceled":
                raise
            return found
        return answers.job(answers.load_object(answer))

    def cancel_run(self, id: str) -> Call[None]:
        """Cancel an ephemeral task."""
        yield from self.ok(Request("DELETE", path("run", id)), True)

    def retry(self, id: str, words: Tuple[str, ...] = ("jobs",)) -> Call[Ref]:
        """Enqueue a dead job again."""
        answer = yield from self.ok(requests.post(path(*words, id, "retry")), False)
        return answers.ref(answers.load_object(answer))

    def page(self, request: Request) -> Call[Tuple[List[JobInfo], str]]:
        """One page of a list, and the position of the next."""
        data = answers.load_object((yield from self.ok(request, True)))
        return [answers.job(one) for one in answers.objects(data, "jobs")], answers.field(data, "next", str)

    # Dead jobs, pools, the server.

    def get_dead(self, id: str) -> Call[JobInfo]:
        """A dead job with its evidence."""
        answer = yield from self.ok(Request("GET", path("dead", id)), True)
        return answers.job(answers.load_object(answer))

    def remove_dead(self, id: str) -> Call[None]:
        """Remove a dead job."""
        yield from self.ok(Request("DELETE", path("dead", id)), True)

    def many(self, request: Request) -> Call[Dict[str, Any]]:
        """A request whose answer is returned as an object; it is not retried."""
        return answers.load_object((yield from self.ok(request, False)))

    def look(self, request: Request) -> Call[Dict[str, Any]]:
        """A request whose answer is returned as an object; it can be retried."""
        return answers.load_object((yield from self.ok(request, True)))

    def status(self) -> Call[StatusInfo]:
        """Get the status of the server."""
        return infos.status(answers.load_object((yield from self.ok(Request("GET", path("status")), True))))

    def pools(self) -> Call[List[PoolInfo]]:
        """All pools."""
        data = answers.load_object((yield from self.ok(Request("GET", path("pools")), True)))
        return [answers.pool(one) for one in answers.objects(data, "pools")]

    def pool(self, name: str) -> Call[PoolInfo]:
        """One pool."""
        return answers.pool(answers.load_object((yield from self.ok(Request("GET", path("pools", name)), True))))

    def change(self, name: str, verb: str, body: Optional[Dict[str, Any]] = None) -> Call[PoolInfo]:
        """Change a pool in a way that can be repeated safely."""
        request = requests.post(path("pools", name, verb), body)
        return answers.pool(answers.load_object((yield from self.ok(request, True))))

    def follow(self, id: str, after: str) -> Stream:
        """The events of a job, each once, over as many connections as it takes."""
        backoff, timer = Backoff(), Timer(self.timeout)
        while True:
            delay = 0.0
            headers: Tuple[Tuple[str, str], ...] = (("Accept", "text/event-stream"),)
            if after:
                headers += (("Last-Event-ID", after),)
            try:
                answer = yield Open(Request("GET", path("jobs", id, "events"), headers), timer.left(_QUIET))
                self.met = True
                if answer.status == 204:  # it has ended, and all was told before
                    return
                after_seconds, _ = self.retry_after(answer, True)
                if answer.status != 200 and after_seconds is None:
                    raise answers.error_of(answer)
                why, delay = f"status {answer.status}", after_seconds or 0.0
                parser = answers.Events(_EVENT_BYTES)
                while answer.status == 200:
                    data = yield Read(_QUIET)
                    why = "the events ended before the job did"
                    for kind, after, text in parser.feed(data):
                        backoff, timer = Backoff(), Timer(self.timeout)
                        found = answers.event(kind, after, text)
                        if found is not None:
                            yield Emit(found)
                        if kind == "end":
                            return
                    after = parser.last or after
                    delay = parser.retry
                    if not data:
                        break
            except Broken as broken:
                why = str(broken)
                if not broken.sent and not self.met:
                    raise self.unreachable(why) from None
            delay = backoff.delay(delay)
            if timer.left() <= delay:
                raise self.unreachable(why)
            yield Pause(delay)


def _open_quiet(request: Request, within: Optional[float]) -> Open:
    """Open a stream of events, however long its task takes."""
    return Open(request, _QUIET)


def _not_ended(id: str) -> errors.NotEnded:
    return errors.NotEnded(f"job {id} has not ended in time; it continues", id=id)


def _is_over(answer: Answer) -> bool:
    return answers.job(answers.load_object(answer)).over


def _has_result(answer: Answer) -> bool:
    if answer.status not in (200, 202):
        raise answers.bad("it is neither a result nor a job", answer)
    return answer.status == 200


def _bulk_line(line: bytes) -> Union[Ref, errors.ClientError]:
    try:
        data = answers.load(line)
        if not isinstance(data, dict):
            raise answers.bad("a line that is not an object")
        if isinstance(data.get("error"), dict):
            return answers.problem(data["error"])
        return answers.ref(data)
    except errors.BadAnswer as error:
        return error
