"""The client for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _client_requests as requests
from ._client_answers import Event, JobInfo, PoolInfo, Ref
from ._client_async_drive import AsyncDriver
from ._client_errors import ClientError
from ._client_infos import BatchInfo, StatusInfo
from ._client_lines import Batch
from ._client_requests import DeadFilter, Filter, Limits, Link, Options, Payload
from ._client_schedules import AsyncSchedules

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Item = Union[Payload, Mapping[str, Any]]


class AsyncJob:
    """A job that was enqueued."""

    def __init__(self, client: "AsyncClient", ref: Ref) -> None:
        self._client = client
        self.id = ref.id
        self.pool = ref.pool
        #: Whether a job with the same key was there before, and this is that one.
        self.existing = ref.existing

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id} of {self.pool}>"

    async def wait(self, timeout: Optional[float] = None) -> JobInfo:
        """Wait until the job has ended, however. NotEnded after timeout seconds."""
        return await self._client.wait(self.id, timeout)

    async def result(self, timeout: Optional[float] = None) -> bytes:
        """Wait for the result. JobFailed tells how the job ended otherwise; NotEnded after timeout seconds."""
        return await self._client.result(self.id, timeout)

    async def info(self) -> JobInfo:
        """What is known of the job now."""
        return await self._client.get(self.id)

    async def cancel(self) -> JobInfo:
        """Cancel the job. Ended when it has ended before."""
        return await self._client.cancel(self.id)

    def follow(self, after: str = "") -> AsyncIterator[Event]:
        """The events of the job until its end."""
        return self._client.follow(self.id, after)


class AsyncClient(AsyncDriver, AsyncSchedules):
    """Submits jobs to a Bullpen server and asks for them, as `Client` does, on an event loop.

    A call that is canceled closes its connection, and does nothing else: what was
    submitted goes on, but for ephemeral tasks, which end with their connection. Up
    to connections are kept open between calls, and up to at_once are open at all;
    calls beyond that wait for one.
    """

    # Submitting.

    async def enqueue(self, pool: str, payload: Payload = b"", **options: "Unpack[Options]") -> AsyncJob:
        """Submit a job and go on. Options are those of `Options`.

        then names what follows when it has ended well: TASK, TASK@POOL, a mapping with
        ``task``, ``pool`` and other options, or a list of these, one after the other.
        """
        return AsyncJob(self, await self._drive(self._calls.enqueue(pool, payload, options)))

    async def run(self, pool: str, payload: Payload = b"", *, wait: Optional[float] = None,
                  **options: "Unpack[Options]") -> bytes:
        """Submit a job and wait for its result, with then for that of the last one.

        NotEnded after wait seconds: the job goes on.
        """
        return await self._drive(self._calls.run(pool, payload, options, wait))

    submit = run

    async def run_ephemeral(self, pool: str, payload: Payload = b"", *, wait: Optional[float] = None,
                            id: Optional[str] = None, **options: "Unpack[Limits]") -> bytes:
        """Run a task past the queue, where the pool allows it: nothing of it is stored, and it is never tried again.

        After wait seconds the connection is closed, which cancels the task, and Lost is raised.
        """
        return await self._drive(self._calls.run_ephemeral(pool, payload, {**options, "id": id}, wait))

    async def enqueue_many(self, pool: str, jobs: "Union[Iterable[_Item], AsyncIterable[_Item]]",
                           **options: "Unpack[Options]") -> AsyncIterator[Union[AsyncJob, ClientError]]:
        """Submit many jobs: payloads, or mappings with ``payload`` and options of their own.

        Yields for each, in order, its AsyncJob or the error that says why it was not
        taken. jobs, which may be an async iterable, is read as the results are; a few
        hundred are on their way at a time.
        """
        batch = Batch(options)
        async for item in _each(jobs):
            if batch.add(item):
                for one in await self._send(pool, batch):
                    yield one
        if batch.entries:
            for one in await self._send(pool, batch):
                yield one

    async def _send(self, pool: str, batch: Batch) -> List[Union[AsyncJob, ClientError]]:
        found = await self._drive(self._calls.bulk(pool, *batch.take()))
        return [one if isinstance(one, ClientError) else AsyncJob(self, one._replace(pool=one.pool or pool)) for one in found]

    async def chain(self, pool: str, jobs: "Sequence[Union[Payload, Mapping[str, Any]]]", **options: "Unpack[Options]") -> AsyncJob:
        """Submit jobs that run one after the other, each with the result of the one before as payload.

        jobs are as for `enqueue_many`; only the first has a payload, and each may have a
        ``pool`` of its own. The Job is the first; `chain_result` waits for the last, and
        ``raw["next"]`` of the info of one that has ended is the id of the one that follows.
        """
        return AsyncJob(self, await self._drive(self._calls.chain(pool, jobs, options)))

    async def batch(self, pool: str, jobs: "Iterable[Union[Payload, Mapping[str, Any]]]", *, key: Optional[str] = None,
              then: Optional[Link] = None, failed: Optional[Link] = None,
              meta: Optional[Mapping[str, str]] = None, **options: Any) -> BatchInfo:
        """Submit jobs that are counted together, and tell of the batch.

        then is a job that is enqueued when all have ended, failed one when the first has
        failed for good: TASK, TASK@POOL, or mappings with ``task`` and other options, and
        ``pool`` where it is not that of the jobs. With a key the batch is made once, and a second call
        finishes what the first did not. Other options are those of `Options`, for each job.
        """
        order = {"key": key, "then": then, "failed": failed, "meta": meta}
        return await self._drive(self._calls.batch(pool, jobs, order, options))

    async def chain_result(self, id: str, timeout: Optional[float] = None) -> bytes:
        """Wait for the result of the last job of a chain, whose first one has that id."""
        return await self._drive(self._calls.chain_result(id, timeout))

    async def get_batch(self, id: str, timeout: Optional[float] = 0.0) -> BatchInfo:
        """How a batch does, after waiting timeout seconds for its end at most; for ever with None."""
        return await self._drive(self._calls.get_batch(id, timeout))

    # Jobs.

    def job(self, id: str, pool: str = "") -> AsyncJob:
        """The job with that id, without asking whether it is there."""
        return AsyncJob(self, Ref(id, pool, "", True))

    async def get(self, id: str) -> JobInfo:
        """What is known of a job."""
        return await self._drive(self._calls.get(id))

    async def payload(self, id: str) -> bytes:
        """A job's payload, as long as it is kept."""
        return await self._drive(self._calls.payload(id))

    async def wait(self, id: str, timeout: Optional[float] = None) -> JobInfo:
        """Wait until a job has ended, however. NotEnded after timeout seconds."""
        return await self._drive(self._calls.wait(id, timeout))

    async def result(self, id: str, timeout: Optional[float] = None) -> bytes:
        """Wait for a job's result. JobFailed tells how it ended otherwise; NotEnded after timeout seconds."""
        return await self._drive(self._calls.result(id, timeout))

    def list(self, *, page: int = 100, **filter: "Unpack[Filter]") -> AsyncIterator[JobInfo]:
        """All jobs, or those that a filter selects; page of them are asked for at a time."""
        return self._pages(("jobs",), requests.JOBS, filter, page)

    async def cancel(self, id: str) -> JobInfo:
        """Cancel a job. Ended when it has ended before."""
        return await self._drive(self._calls.cancel(id))

    async def cancel_all(self, *, all: bool = False, limit: Optional[int] = None, **filter: "Unpack[Filter]") -> Dict[str, Any]:
        """Cancel the jobs of a filter that have not ended: ``count``, ``failed`` and whether there are ``more``."""
        return await self._drive(self._calls.many(requests.filtered(("jobs", "cancel"), requests.JOBS, filter, all, limit)))

    async def cancel_run(self, id: str) -> None:
        """Cancel an ephemeral task that runs on this server."""
        await self._drive(self._calls.cancel_run(id))

    async def retry(self, id: str) -> AsyncJob:
        """Enqueue a job that has ended again, as a new job. PayloadGone where its payload is not kept."""
        return AsyncJob(self, await self._drive(self._calls.retry(id)))

    def follow(self, id: str, after: str = "") -> AsyncIterator[Event]:
        """The events of a job until its end, each once; after is the id of an event to go on behind."""
        return self._stream(self._calls.follow(id, after))

    # Dead jobs.

    def list_dead(self, *, page: int = 100, **filter: "Unpack[DeadFilter]") -> AsyncIterator[JobInfo]:
        """The dead jobs; ``reason="quarantined"`` are those that killed too many workers."""
        return self._pages(("dead",), requests.DEAD, filter, page)

    async def causes(self, **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """What the last dead jobs died of, in ``causes``, most of them first; ``cause`` of each is for a filter."""
        return await self._drive(self._calls.look(requests.causes(filter)))

    async def get_dead(self, id: str) -> JobInfo:
        """A dead job with its evidence, which `raw` has."""
        return await self._drive(self._calls.get_dead(id))

    async def retry_dead(self, id: str) -> AsyncJob:
        """Enqueue a dead job again, as a new job."""
        return AsyncJob(self, await self._drive(self._calls.retry(id, ("dead",))))

    async def remove_dead(self, id: str) -> None:
        """Forget a dead job."""
        await self._drive(self._calls.remove_dead(id))

    async def retry_all_dead(self, *, all: bool = False, limit: Optional[int] = None,
                             **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Enqueue the dead jobs of a filter again: ``count``, ``failed`` and whether there are ``more``."""
        return await self._drive(self._calls.many(requests.filtered(("dead", "retry"), requests.DEAD, filter, all, limit)))

    async def remove_all_dead(self, *, all: bool = False, limit: Optional[int] = None,
                              **filter: "Unpack[DeadFilter]") -> Dict[str, Any]:
        """Forget the dead jobs of a filter: ``count``, ``failed`` and whether there are ``more``."""
        return await self._drive(self._calls.many(requests.filtered(("dead", "remove"), requests.DEAD, filter, all, limit)))

    # Pools, and the server.

    async def pools(self) -> List[PoolInfo]:
        """All pools."""
        return await self._drive(self._calls.pools())

    async def pool(self, name: str) -> PoolInfo:
        """One pool."""
        return await self._drive(self._calls.pool(name))

    async def pause(self, pool: str) -> PoolInfo:
        """Start no more jobs of a pool; those that run go on."""
        return await self._drive(self._calls.change(pool, "pause"))

    async def resume(self, pool: str) -> PoolInfo:
        """End a pause."""
        return await self._drive(self._calls.change(pool, "resume"))

    async def scale(self, pool: str, *, min: Optional[int] = None, max: Optional[int] = None) -> PoolInfo:
        """Set how many workers a pool has, until the server reads its configuration again."""
        return await self._drive(self._calls.change(pool, "scale", requests.bounds(min, max)))

    async def reload_pool(self, pool: str) -> PoolInfo:
        """Replace the workers of a pool; the new ones are ready before the old ones go."""
        return await self._drive(self._calls.change(pool, "reload"))

    async def reload(self) -> Dict[str, Any]:
        """Let the server read its configuration again. BadConfig tells what is wrong with it."""
        return await self._drive(self._calls.many(requests.post("/v1/reload")))

    async def status(self) -> StatusInfo:
        """How the server does."""
        return await self._drive(self._calls.status())


async def _each(items: Any) -> AsyncIterator[Any]:
    """The items of an iterable, or of an async one."""
    if hasattr(items, "__aiter__"):
        async for item in items:
            yield item
        return
    for item in items:
        yield item
