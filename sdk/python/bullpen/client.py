"""Submit jobs to a Bullpen server, and read their results::

    from bullpen.client import Client

    with Client("http://127.0.0.1:8650") as client:
        job = client.enqueue("thumbnails", jpeg, key="photo-17")
        small = job.result()

`AsyncClient` is the same for asyncio. It is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._client_answers import Event, JobInfo, Line, PoolInfo, Progress
from ._client_errors import (BadAnswer, BadConfig, BadRequest, BusyId, ClientError, Closed, Ended, Forbidden, Incomplete, JobFailed, Lost,
                             Managed, Nested, NeverStarted, NotDead, NotEnded, NotFound, Overlap, Overloaded, PayloadGone, Refused, ServerError, StartFailed,
                             StoreFailed, TooLarge, Unauthorized, Unconfirmed, UnknownTask, Unreachable)
from ._client_infos import BatchInfo, ScheduleInfo, StatusInfo, StoreInfo
from ._client_requests import DeadFilter, Filter, Limits, Link, ListFilter, Options
from ._client_schedules import ScheduleOptions
from ._client_sync import Client, Job

if TYPE_CHECKING:
    from ._client_async import AsyncClient, AsyncJob

__all__ = [
    "AsyncClient", "AsyncJob", "BadAnswer", "BadConfig", "BadRequest", "BatchInfo", "BusyId", "Client", "ClientError", "Closed",
    "DeadFilter", "Ended", "Event", "Filter", "Forbidden", "Incomplete", "Job", "JobFailed", "JobInfo", "Limits", "Line", "Link", "ListFilter", "Lost", "Managed",
    "Nested",
    "NeverStarted", "NotDead", "NotEnded", "NotFound", "Options", "Overlap", "Overloaded", "PayloadGone", "PoolInfo", "Progress", "Refused",
    "ScheduleInfo", "ScheduleOptions",
    "ServerError", "StartFailed", "StatusInfo", "StoreFailed", "StoreInfo", "TooLarge", "Unauthorized", "Unconfirmed", "UnknownTask", "Unreachable",
]


def __getattr__(name: str) -> Any:
    """Load asyncio only for those who want it: it costs a worker 20 ms of its start."""
    if name in ("AsyncClient", "AsyncJob"):
        from . import _client_async

        return getattr(_client_async, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
