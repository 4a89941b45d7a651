"""What a client raises."""

from __future__ import annotations

from typing import Sequence, Tuple


class ClientError(Exception):
    """The base of all errors of a client.

    `status` is the status of the server's answer, 0 without one; `cause` the
    server's word for it; `id` the job or task that it is about, where known.
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
    """No server answers; nothing was submitted by this call."""

    __module__ = "bullpen.client"


class BadAnswer(ClientError):
    """The answer cannot be understood. A submit may have been taken nevertheless."""

    __module__ = "bullpen.client"


class BadRequest(ClientError, ValueError):
    """The request is wrong. `faults` has everything that is wrong with it."""

    __module__ = "bullpen.client"

    def __init__(self, message: str = "", *, faults: Sequence[str] = (), status: int = 0, cause: str = "",
                 id: str = "") -> None:
        super().__init__(message, status=status, cause=cause, id=id)
        self.faults: Tuple[str, ...] = tuple(faults)


class TooLarge(BadRequest):
    """The payload is larger than the server takes."""

    __module__ = "bullpen.client"


class BadConfig(BadRequest):
    """The configuration that was to be read again is faulty; the old one goes on."""

    __module__ = "bullpen.client"


class Unauthorized(ClientError):
    """The server wants a token, or does not know this one."""

    __module__ = "bullpen.client"


class Forbidden(ClientError):
    """The token does not allow it, or the pool."""

    __module__ = "bullpen.client"


class NotFound(ClientError, LookupError):
    """No such job, task or pool."""

    __module__ = "bullpen.client"


class Ended(ClientError):
    """The job has ended already."""

    __module__ = "bullpen.client"


class Incomplete(ClientError):
    """The batch does not have the jobs that it was to be sealed with."""

    __module__ = "bullpen.client"


class Overlap(ClientError):
    """The last job of a schedule has not ended, and it forbids another."""

    __module__ = "bullpen.client"


class Managed(ClientError):
    """The schedule is changed in the server's configuration only."""

    __module__ = "bullpen.client"


class NotDead(ClientError):
    """Only a dead job can be tried again."""

    __module__ = "bullpen.client"


class PayloadGone(ClientError):
    """The job has ended, and its payload is no longer kept."""

    __module__ = "bullpen.client"


class NotEnded(ClientError, TimeoutError):
    """The wait is over, and the job goes on."""

    __module__ = "bullpen.client"


class Unconfirmed(ClientError):
    """The job may have been taken, or not. With a key a submit may be repeated without harm."""

    __module__ = "bullpen.client"


class ServerError(ClientError):
    """The server has a fault."""

    __module__ = "bullpen.client"


class NeverStarted(ClientError):
    """The task was not taken, and nothing of it was run.

    `retry_after` is how many seconds the server asks to wait, 0 where it does not say.
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
    """The server, or the pool, takes no more tasks: it stops."""

    __module__ = "bullpen.client"


class StoreFailed(NeverStarted):
    """The server cannot store the job."""

    __module__ = "bullpen.client"


class UnknownTask(NeverStarted):
    """No handler has the task's name."""

    __module__ = "bullpen.client"


class Refused(NeverStarted):
    """The task asks for what the pool cannot keep."""

    __module__ = "bullpen.client"


class StartFailed(NeverStarted):
    """No worker could be started."""

    __module__ = "bullpen.client"


class Nested(NeverStarted):
    """A task waits for its own pool, which has no worker left for it."""

    __module__ = "bullpen.client"


class BusyId(NeverStarted):
    """A task with this id runs already."""

    __module__ = "bullpen.client"


class JobFailed(ClientError):
    """A job, or a task, ended otherwise than with a result.

    `outcome` is failed, panic, timeout, canceled, crashed, memory, output,
    protocol or lost, and empty where a job never started; `reason` says why a job
    is not tried again. `type`, `message` and `stack` come from the handler's own
    error; `exit_code` is -1 where the worker did not exit by itself, `signal` names
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
    """The task may have run, and how it ended is not known: the connection broke."""

    __module__ = "bullpen.client"

    outcome = "lost"
