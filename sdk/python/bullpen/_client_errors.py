"""The errors of a client."""

from __future__ import annotations

from typing import Sequence, Tuple


class ClientError(Exception):
    """The base class of all errors of a client.

    `status` is the status of the server's answer, 0 without one; `cause` the
    server's word for it; `id` the job or task concerned, if known.
    """

    __module__ = "bullpen.client"

    def __init__(self, message: str = "", *, status: int = 0, cause: str = "", id: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause
        self.id = id

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Unreachable(ClientError, ConnectionError):
    """No server answers; this call has submitted nothing."""

    __module__ = "bullpen.client"


class BadAnswer(ClientError):
    """The answer cannot be parsed. A submitted job may still have been accepted."""

    __module__ = "bullpen.client"


class BadRequest(ClientError, ValueError):
    """The request is wrong. `faults` has everything that is wrong with it."""

    __module__ = "bullpen.client"

    def __init__(self, message: str = "", *, faults: Sequence[str] = (), status: int = 0, cause: str = "",
                 id: str = "") -> None:
        super().__init__(message, status=status, cause=cause, id=id)
        self.faults: Tuple[str, ...] = tuple(faults)


class TooLarge(BadRequest):
    """The payload is larger than the server accepts."""

    __module__ = "bullpen.client"


class BadConfig(BadRequest):
    """The new configuration has faults; the old one stays in use."""

    __module__ = "bullpen.client"


class Unauthorized(ClientError):
    """The server requires a token, or rejected this one."""

    __module__ = "bullpen.client"


class Forbidden(ClientError):
    """The token or the pool does not allow this."""

    __module__ = "bullpen.client"


class NotFound(ClientError, LookupError):
    """The job, task or pool does not exist."""

    __module__ = "bullpen.client"


class Ended(ClientError):
    """The job has already ended."""

    __module__ = "bullpen.client"


class Incomplete(ClientError):
    """The batch cannot be sealed: some of its jobs are missing."""

    __module__ = "bullpen.client"


class Overlap(ClientError):
    """The last job of the schedule has not ended, and overlap is forbidden."""

    __module__ = "bullpen.client"


class Managed(ClientError):
    """The schedule belongs to the server's configuration and can only be changed there."""

    __module__ = "bullpen.client"


class NotDead(ClientError):
    """Only a dead job can be retried."""

    __module__ = "bullpen.client"


class PayloadGone(ClientError):
    """The job has ended, and its payload is no longer kept."""

    __module__ = "bullpen.client"


class NotEnded(ClientError, TimeoutError):
    """The wait is over; the job continues."""

    __module__ = "bullpen.client"


class Unconfirmed(ClientError):
    """The job may have been accepted or not. A submit with a key can be repeated safely."""

    __module__ = "bullpen.client"


class ServerError(ClientError):
    """The server had an internal error."""

    __module__ = "bullpen.client"


class NeverStarted(ClientError):
    """The task was not accepted, and was not run.

    `retry_after` is the number of seconds that the server asks to wait, 0 if it gives none.
    """

    __module__ = "bullpen.client"

    def __init__(self, message: str = "", *, retry_after: float = 0.0, status: int = 0, cause: str = "",
                 id: str = "") -> None:
        super().__init__(message, status=status, cause=cause, id=id)
        self.retry_after = retry_after


class Overloaded(NeverStarted):
    """There is no room: the queue is full, or requests come too fast."""

    __module__ = "bullpen.client"


class Closed(NeverStarted):
    """The server or the pool is stopping and accepts no more tasks."""

    __module__ = "bullpen.client"


class StoreFailed(NeverStarted):
    """The server cannot store the job."""

    __module__ = "bullpen.client"


class UnknownTask(NeverStarted):
    """No handler has the name of the task."""

    __module__ = "bullpen.client"


class Refused(NeverStarted):
    """The pool cannot enforce a limit of the task."""

    __module__ = "bullpen.client"


class StartFailed(NeverStarted):
    """No worker could be started."""

    __module__ = "bullpen.client"


class Nested(NeverStarted):
    """A task waits for its own pool, which has no worker left for it."""

    __module__ = "bullpen.client"


class BusyId(NeverStarted):
    """A task with this id is already running."""

    __module__ = "bullpen.client"


class JobFailed(ClientError):
    """A job or a task ended without a result.

    `outcome` is failed, panic, timeout, canceled, crashed, memory, output,
    protocol or lost, and empty if a job never started; `reason` says why a job
    is not retried. `type`, `message` and `stack` come from the handler's own
    error; `exit_code` is -1 if the worker did not exit by itself, `signal` names
    the signal that ended it, `detail` has the last lines of its standard error.
    """

    __module__ = "bullpen.client"

    outcome = ""
    reason = ""
    task = ""
    type = ""
    message = ""
    stack = ""
    retryable = False
    worker = ""
    exit_code = -1
    signal = ""
    detail = ""
    attempts = 0


class Lost(JobFailed):
    """The connection broke: the task may have run, and its outcome is unknown."""

    __module__ = "bullpen.client"

    outcome = "lost"
