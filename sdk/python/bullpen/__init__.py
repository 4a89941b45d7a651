"""Write Bullpen workers in Python.

A worker is a program whose functions a host runs as tasks, each in a process
that the host starts, limits, watches and replaces::

    import bullpen

    @bullpen.task
    def thumbnail(jpeg: bytes, task: bullpen.Task) -> bytes:
        task.progress(0.5, "decoded")
        print("this is a log line, tagged with the task's id")
        return shrink(jpeg)

    bullpen.run()
"""

from ._errors import Failed, TaskCanceled, TaskEnded, TaskTimeout
from ._registry import task
from ._start import run
from ._task import Task
from ._version import __version__ as __version__

__all__ = ["Failed", "Task", "TaskCanceled", "TaskEnded", "TaskTimeout", "run", "task"]
