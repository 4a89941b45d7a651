"""The worker of the browser's tests: tasks that end well, badly, slowly, and talk."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))
import bullpen  # noqa: E402


@bullpen.task
def upper(data: bytes) -> bytes:
    return data.upper()


@bullpen.task
def fails(data: bytes) -> bytes:
    raise ValueError(data.decode())


@bullpen.task
def exits(data: bytes) -> bytes:
    sys.exit(7)


@bullpen.task
def sleeps(data: bytes) -> bytes:
    time.sleep(float(data or b"0"))
    return b"slept"


@bullpen.task
def mends(data: bytes) -> bytes:
    """Fails until the file that the payload names is there."""
    if not os.path.exists(data.decode()):
        raise bullpen.Failed("nobody has mended it yet", retry=False)
    return b"mended"


@bullpen.task
def talks(data: bytes, task: bullpen.Task) -> bytes:
    """Says what the payload says, and its progress, until the job is canceled."""
    for i in range(600):
        task.progress(min(0.99, i / 60), f"step {i}")
        print("line", i, data.decode())
        time.sleep(0.1)
    return b"said"


bullpen.run()
