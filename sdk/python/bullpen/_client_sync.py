"""The client for ordinary code, with threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import _client_requests as requests
from ._client_answers import Event, JobInfo, PoolInfo, Ref
from ._client_drive import Driver
from ._client_errors import ClientError
from ._client_infos import BatchInfo, StatusInfo
from ._client_lines import Batch
from ._client_requests import DeadFilter, Filter, Limits, Link, ListFilter, Options, Payload
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
        """Wait until the job has ended, with any outcome. Raises NotEnded after timeout seconds."""
        return self._client.wait(self.id, timeout)

    def result(self, timeout: Optional[float] = None) -> bytes:
        """Wait for the result. Raises JobFailed if the job ended without one, and NotEnded after timeout seconds."""
        return self._client.result(self.id, timeout)

    def info(self) -> JobInfo:
        """The current state of the job."""
        return self._client.get(self.id)

    def cancel(self) -> JobInfo:
        """Cancel the job. Raises Ended if it has already ended."""
        return self._client.cancel(self.id)

    def follow(self, after: str = "") -> Iterator[Event]:
        """The events of the job until its end."""
        return self._client.follow(self.id, after)


class Client(Driver, Schedules):
    """Submits jobs to a Bullpen server and reads their results. Safe for use by several threads.

    timeout is the number of seconds that a call may take, with its retries, but without
    the time that it waits for a job. token, or the token in token_file, is sent to the
    server; ca is a PEM file with the certificates to trust. The default of url is
    $BULLPEN_URL, else http://127.0.0.1:8650; the default token is $BULLPEN_TOKEN, else the
    token in the file $BULLPEN_TOKEN_FILE; token="" sends none. At most `connections`
    connections are kept open between calls. An answer of more than max_answer bytes is an
    error.
    """

    # Submitting.

    def enqueue(self, pool: str, payload: Payload = b"", **options: "Unpack[Options]") -> Job:
        """Submit a job without waiting for it. For the options see `Options`.

        then names the followers that run when it has ended well: TASK, TASK@POOL, a mapping with
        ``task``, ``pool`` and other options, or a list of these, one after the other.
        """
        return Job(self, self._drive(self._calls.enqueue(pool, payload, options)))

    def run(self, pool: str, payload: Payload = b"", *, wait: Optional[float] = None, **options: "Unpack[Options]") -> bytes:
        """Submit a job and wait for its result; with then, for that of the last job.

        Raises NotEnded after wait seconds; the job continues.
        """
        return self._drive(self._calls.run(pool, payload, options, wait))

    submit = run

    def run_ephemeral(self, pool: str, payload: Payload = b"", *, wait: Optional[float] = None, id: Optional[str] = None,
                      **options: "Unpack[Limits]") -> bytes:
        """Run a task without the queue, if the pool allows it: nothing is stored, and it is never retried.

        After wait seconds the call closes the connection, which cancels the task, and raises Lost.
        """
        return self._drive(self._calls.run_ephemeral(pool, payload, {**options, "id": id}, wait))

    def stream(self, pool: str, payload: Payload = b"", *, id: Optional[str] = None, **options: "Unpack[Limits]") -> Iterator[bytes]:
        """Run a task as `run_ephemeral` does, and yield its result in pieces, as the worker sends them.

        A task that fails raises where the next piece would come. Leaving the loop closes the
        connection, which cancels the task. A worker that does not stream gives one piece.
        """
        return self._stream(self._calls.stream(pool, payload, {**options, "id": id}, self._max_answer))

    def enqueue_many(self, pool: str, jobs: Iterable[Union[Payload, Mapping[str, Any]]],
                     **options: "Unpack[Options]") -> Iterator[Union[Job, ClientError]]:
        """Submit many jobs: payloads, or mappings with ``payload`` and their own options.

        Yields for each job, in order, its Job or the error why it was refused. jobs is
        read while you read the results, up to a few hundred jobs ahead.
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

        jobs are as for `enqueue_many`; only the first may have a payload, and each may have its
        own ``pool``. Returns the first job; `chain_result` waits for the last one, and
        ``raw["next"]`` in the info of an ended job is the id of the next one.
        """
        return Job(self, self._drive(self._calls.chain(pool, jobs, options)))

    def batch(self, pool: str, jobs: "Iterable[Union[Payload, Mapping[str, Any]]]", *, key: Optional[str] = None,
              then: Optional[Link] = None, failed: Optional[Link] = None,
              meta: Optional[Mapping[str, str]] = None, **options: Any) -> BatchInfo:
        """Submit jobs that are counted together, and return the batch.

        then is a job that is enqueued when all have ended; failed is one that is enqueued
        when the first has failed for good. Each is TASK, TASK@POOL, or a mapping with
        ``task`` and other options, and ``pool`` if it differs from that of the jobs. With a
        key the batch is created once, and a second call completes an interrupted first one.
        For the other options, which apply to each job, see `Options`.
        """
        order = {"key": key, "then": then, "failed": failed, "meta": meta}
        return self._drive(self._calls.batch(pool, jobs, order, options))

    def chain_result(self, id: str, timeout: Optional[float] = None) -> bytes:
        """Wait for the result of the last job of the chain whose first job has this id."""
        return self._drive(self._calls.chain_result(id, timeout))

    def get_batch(self, id: str, timeout: Optional[float] = 0.0) -> BatchInfo:
        """The state of a batch, after waiting at most timeout seconds for its end; without limit if None."""
        return self._drive(self._calls.get_batch(id, timeout))

    # Jobs.

    def job(self, id: str, pool: str = "") -> Job:
        """The job with this id, without a request to check that it exists."""
        return Job(self, Ref(id, pool, "", True))

    def get(self, id: str) -> JobInfo:
        """Get the information about a job."""
        return self._drive(self._calls.get(id))

    def payload(self, id: str) -> bytes:
        """Get the payload of a job, while it is kept."""
        return self._drive(self._calls.payload(id))

    def wait(self, id: str, timeout: Optional[float] = None) -> JobInfo:
        """Wait until a job has ended, with any outcome. Raises NotEnded after timeout seconds."""
        return self._drive(self._calls.wait(id, timeout))

    def result(self, id: str, timeout: Optional[float] = None) -> bytes:
        """Wait for a job's result. Raises JobFailed if it ended without one, and NotEnded after timeout seconds."""
        return self._drive(self._calls.result(id, timeout))

    def list(self, *, page: int = 100, **filter: "Unpack[ListFilter]") -> Iterator[JobInfo]:
        """List all jobs, or those that match a filter; each request reads page jobs."""
        return self._pages(("jobs",), requests.LIST, filter, page)

    def cancel(self, id: str) -> JobInfo:
        """Cancel a job. Raises Ended if it has already ended."""
        return self._drive(self._calls.cancel(id))

    def cancel_all(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[Filter]") -> Dict[str, Any]:
        """Cancel the jobs that match a filter and have not ended. Returns ``count``, ``failed`` and ``more``."""
        return self._drive(self._calls.many(requests.filtered(("jobs", "cancel"), requests.JOBS, filter, all, limit)))

    def cancel_run(self, id: str) -> None:
        """Cancel an ephemeral task that runs on this server."""
        self._drive(self._calls.cancel_run(id))

    def retry(self, id: str) -> Job:
        """Enqueue an ended job again, as a new job. Raises PayloadGone if its payload is not kept."""
        return Job(self, self._drive(self._calls.retry(id)))

    def follow(self, id: str, after: str = "") -> Iterator[Event]:
        """The events of a job until its end, each once. Pass the id of an event as after to continue behind it."""
        return self._stream(self._calls.follow(id, after))

    # Dead jobs.

    def list_dead(self, *, page: int = 100, **filter: "Unpack[DeadFilter]") -> Iterator[JobInfo]:
        """The dead jobs; ``reason="quarantined"`` are those that killed too many workers."""
        return self._pages(("dead",), requests.DEAD, filter, page)

    def causes(self, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Count the newest dead jobs by cause: ``causes``, the most frequent first. Filters accept the ``cause`` of each."""
        return self._drive(self._calls.look(requests.causes(filter)))

    def get_dead(self, id: str) -> JobInfo:
        """A dead job with its evidence, which `raw` has."""
        return self._drive(self._calls.get_dead(id))

    def retry_dead(self, id: str) -> Job:
        """Enqueue a dead job again, as a new job."""
        return Job(self, self._drive(self._calls.retry(id, ("dead",))))

    def remove_dead(self, id: str) -> None:
        """Remove a dead job."""
        self._drive(self._calls.remove_dead(id))

    def retry_all_dead(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Enqueue the dead jobs that match a filter again. Returns ``count``, ``failed`` and ``more``."""
        return self._drive(self._calls.many(requests.filtered(("dead", "retry"), requests.DEAD, filter, all, limit)))

    def remove_all_dead(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Remove the dead jobs that match a filter. Returns ``count``, ``failed`` and ``more``."""
        return self._drive(self._calls.many(requests.filtered(("dead", "remove"), requests.DEAD, filter, all, limit)))

    # Pools, and the server.

    def pools(self) -> List[PoolInfo]:
        """All pools."""
        return self._drive(self._calls.pools())

    def pool(self, name: str) -> PoolInfo:
        """One pool."""
        return self._drive(self._calls.pool(name))

    def pause(self, pool: str) -> PoolInfo:
        """Start no more jobs of a pool; running jobs continue."""
        return self._drive(self._calls.change(pool, "pause"))

    def resume(self, pool: str) -> PoolInfo:
        """Resume a paused pool."""
        return self._drive(self._calls.change(pool, "resume"))

    def scale(self, pool: str, *, min: Optional[int] = None, max: Optional[int] = None) -> PoolInfo:
        """Set how many workers a pool has, until the server reloads its configuration."""
        return self._drive(self._calls.change(pool, "scale", requests.bounds(min, max)))

    def reload_pool(self, pool: str) -> PoolInfo:
        """Replace the workers of a pool; the new ones are ready before the old ones end."""
        return self._drive(self._calls.change(pool, "reload"))

    def reload(self) -> Dict[str, Any]:
        """Make the server reload its configuration. Raises BadConfig with what is wrong with it."""
        return self._drive(self._calls.many(requests.post("/v1/reload")))

    def status(self) -> StatusInfo:
        """Get the status of the server."""
        return self._drive(self._calls.status())
