"""The client for ordinary code, with threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import _client_requests as requests
from ._client_answers import Event, JobInfo, PoolInfo, Ref
from ._client_drive import Driver
from ._client_errors import ClientError
from ._client_infos import BatchInfo, StatusInfo
from ._client_lines import Batch
from ._client_requests import DeadFilter, Filter, Limits, Link, Options, Payload
from ._client_schedules import Schedules

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Job:
    """A job that was enqueued."""

    def __init__(self, client: "Client", ref: Ref) -> None:
        self._client = client
        self.id = ref.id
        self.pool = ref.pool
        #: Whether a job with the same key was there before, and this is that one.
        self.existing = ref.existing

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.pool}>"

    def wait(self, timeout: Optional[float] = None) -> JobInfo:
        """Wait until the job has ended, however. NotEnded after timeout seconds."""
        return self._client.wait(self.id, timeout)

    def result(self, timeout: Optional[float] = None) -> bytes:
        """Wait for the result. JobFailed tells how the job ended otherwise; NotEnded after timeout seconds."""
        return self._client.result(self.id, timeout)

    def info(self) -> JobInfo:
        """What is known of the job now."""
        return self._client.get(self.id)

    def cancel(self) -> JobInfo:
        """Cancel the job. Ended when it has ended before."""
        return self._client.cancel(self.id)

    def follow(self, after: str = "") -> Iterator[Event]:
        """The events of the job until its end."""
        return self._client.follow(self.id, after)


class Client(Driver, Schedules):
    """Submits jobs to a Bullpen server and asks for them. Safe for use by several threads.

    timeout is how many seconds a call may take beside the time that it waits for a
    job; it covers tries that are made again. token, or that in token_file, is sent to
    the server; ca is a file with the certificates to trust, in PEM. Without url it asks
    $BULLPEN_URL, or http://127.0.0.1:8650; without a token it sends $BULLPEN_TOKEN, or
    that in the file $BULLPEN_TOKEN_FILE, and with token="" none. Up to connections are kept open
    between calls. An answer of more than max_answer bytes is an error.
    """

    # Submitting.

    def enqueue(self, pool: str, payload: Payload = b"", **options: "Unpack[Options]") -> Job:
        """Submit a job and go on. Options are those of `Options`.

        then names what follows when it has ended well: TASK, TASK@POOL, a mapping with
        ``task``, ``pool`` and other options, or a list of these, one after the other.
        """
        return Job(self, self._drive(self._calls.enqueue(pool, payload, options)))

    def run(self, pool: str, payload: Payload = b"", *, wait: Optional[float] = None, **options: "Unpack[Options]") -> bytes:
        """Submit a job and wait for its result, with then for that of the last one.

        NotEnded after wait seconds: the job goes on.
        """
        return self._drive(self._calls.run(pool, payload, options, wait))

    submit = run

    def run_ephemeral(self, pool: str, payload: Payload = b"", *, wait: Optional[float] = None, id: Optional[str] = None,
                      **options: "Unpack[Limits]") -> bytes:
        """Run a task past the queue, where the pool allows it: nothing of it is stored, and it is never tried again.

        After wait seconds the connection is closed, which cancels the task, and Lost is raised.
        """
        return self._drive(self._calls.run_ephemeral(pool, payload, {**options, "id": id}, wait))

    def enqueue_many(self, pool: str, jobs: Iterable[Union[Payload, Mapping[str, Any]]],
                     **options: "Unpack[Options]") -> Iterator[Union[Job, ClientError]]:
        """Submit many jobs: payloads, or mappings with ``payload`` and options of their own.

        Yields for each, in order, its Job or the error that says why it was not taken.
        jobs is read as the results are; a few hundred are on their way at a time.
        """
        batch = Batch(options)
        for item in jobs:
            if batch.add(item):
                yield from self._send(pool, batch)
        if batch.entries:
            yield from self._send(pool, batch)

    def _send(self, pool: str, batch: Batch) -> Iterator[Union[Job, ClientError]]:
        for one in self._drive(self._calls.bulk(pool, *batch.take())):
            yield one if isinstance(one, ClientError) else Job(self, one._replace(pool=one.pool or pool))

    def chain(self, pool: str, jobs: "Sequence[Union[Payload, Mapping[str, Any]]]", **options: "Unpack[Options]") -> Job:
        """Submit jobs that run one after the other, each with the result of the one before as payload.

        jobs are as for `enqueue_many`; only the first has a payload, and each may have a
        ``pool`` of its own. The Job is the first; `chain_result` waits for the last, and
        ``raw["next"]`` of the info of one that has ended is the id of the one that follows.
        """
        return Job(self, self._drive(self._calls.chain(pool, jobs, options)))

    def batch(self, pool: str, jobs: "Iterable[Union[Payload, Mapping[str, Any]]]", *, key: Optional[str] = None,
              then: Optional[Link] = None, failed: Optional[Link] = None,
              meta: Optional[Mapping[str, str]] = None, **options: Any) -> BatchInfo:
        """Submit jobs that are counted together, and tell of the batch.

        then is a job that is enqueued when all have ended, failed one when the first has
        failed for good: TASK, TASK@POOL, or mappings with ``task`` and other options, and
        ``pool`` where it is not that of the jobs. With a key the batch is made once, and a second call
        finishes what the first did not. Other options are those of `Options`, for each job.
        """
        order = {"key": key, "then": then, "failed": failed, "meta": meta}
        return self._drive(self._calls.batch(pool, jobs, order, options))

    def chain_result(self, id: str, timeout: Optional[float] = None) -> bytes:
        """Wait for the result of the last job of a chain, whose first one has that id."""
        return self._drive(self._calls.chain_result(id, timeout))

    def get_batch(self, id: str, timeout: Optional[float] = 0.0) -> BatchInfo:
        """How a batch does, after waiting timeout seconds for its end at most; for ever with None."""
        return self._drive(self._calls.get_batch(id, timeout))

    # Jobs.

    def job(self, id: str, pool: str = "") -> Job:
        """The job with that id, without asking whether it is there."""
        return Job(self, Ref(id, pool, "", True))

    def get(self, id: str) -> JobInfo:
        """What is known of a job."""
        return self._drive(self._calls.get(id))

    def payload(self, id: str) -> bytes:
        """A job's payload, as long as it is kept."""
        return self._drive(self._calls.payload(id))

    def wait(self, id: str, timeout: Optional[float] = None) -> JobInfo:
        """Wait until a job has ended, however. NotEnded after timeout seconds."""
        return self._drive(self._calls.wait(id, timeout))

    def result(self, id: str, timeout: Optional[float] = None) -> bytes:
        """Wait for a job's result. JobFailed tells how it ended otherwise; NotEnded after timeout seconds."""
        return self._drive(self._calls.result(id, timeout))

    def list(self, *, page: int = 100, **filter: "Unpack[Filter]") -> Iterator[JobInfo]:
        """All jobs, or those that a filter selects; page of them are asked for at a time."""
        return self._pages(("jobs",), requests.JOBS, filter, page)

    def cancel(self, id: str) -> JobInfo:
        """Cancel a job. Ended when it has ended before."""
        return self._drive(self._calls.cancel(id))

    def cancel_all(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[Filter]") -> Dict[str, Any]:
        """Cancel the jobs of a filter that have not ended: ``count``, ``failed`` and whether there are ``more``."""
        return self._drive(self._calls.many(requests.filtered(("jobs", "cancel"), requests.JOBS, filter, all, limit)))

    def cancel_run(self, id: str) -> None:
        """Cancel an ephemeral task that runs on this server."""
        self._drive(self._calls.cancel_run(id))

    def retry(self, id: str) -> Job:
        """Enqueue a job that has ended again, as a new job. PayloadGone where its payload is not kept."""
        return Job(self, self._drive(self._calls.retry(id)))

    def follow(self, id: str, after: str = "") -> Iterator[Event]:
        """The events of a job until its end, each once; after is the id of an event to go on behind."""
        return self._stream(self._calls.follow(id, after))

    # Dead jobs.

    def list_dead(self, *, page: int = 100, **filter: "Unpack[DeadFilter]") -> Iterator[JobInfo]:
        """The dead jobs; ``reason="quarantined"`` are those that killed too many workers."""
        return self._pages(("dead",), requests.DEAD, filter, page)

    def causes(self, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """What the last dead jobs died of, in ``causes``, most of them first; ``cause`` of each is for a filter."""
        return self._drive(self._calls.look(requests.causes(filter)))

    def get_dead(self, id: str) -> JobInfo:
        """A dead job with its evidence, which `raw` has."""
        return self._drive(self._calls.get_dead(id))

    def retry_dead(self, id: str) -> Job:
        """Enqueue a dead job again, as a new job."""
        return Job(self, self._drive(self._calls.retry(id, ("dead",))))

    def remove_dead(self, id: str) -> None:
        """Forget a dead job."""
        self._drive(self._calls.remove_dead(id))

    def retry_all_dead(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Enqueue the dead jobs of a filter again: ``count``, ``failed`` and whether there are ``more``."""
        return self._drive(self._calls.many(requests.filtered(("dead", "retry"), requests.DEAD, filter, all, limit)))

    def remove_all_dead(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Forget the dead jobs of a filter: ``count``, ``failed`` and whether there are ``more``."""
        return self._drive(self._calls.many(requests.filtered(("dead", "remove"), requests.DEAD, filter, all, limit)))

    # Pools, and the server.

    def pools(self) -> List[PoolInfo]:
        """All pools."""
        return self._drive(self._calls.pools())

    def pool(self, name: str) -> PoolInfo:
        """One pool."""
        return self._drive(self._calls.pool(name))

    def pause(self, pool: str) -> PoolInfo:
        """Start no more jobs of a pool; those that run go on."""
        return self._drive(self._calls.change(pool, "pause"))

    def resume(self, pool: str) -> PoolInfo:
        """End a pause."""
        return self._drive(self._calls.change(pool, "resume"))

    def scale(self, pool: str, *, min: Optional[int] = None, max: Optional[int] = None) -> PoolInfo:
        """Set how many workers a pool has, until the server reads its configuration again."""
        return self._drive(self._calls.change(pool, "scale", requests.bounds(min, max)))

    def reload_pool(self, pool: str) -> PoolInfo:
        """Replace the workers of a pool; the new ones are ready before the old ones go."""
        return self._drive(self._calls.change(pool, "reload"))

    def reload(self) -> Dict[str, Any]:
        """Let the server read its configuration again. BadConfig tells what is wrong with it."""
        return self._drive(self._calls.many(requests.post("/v1/reload")))

    def status(self) -> StatusInfo:
        """How the server does."""
        return self._drive(self._calls.status())
