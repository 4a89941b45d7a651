"""A Python worker whose starts are measured. Its arguments are the modules that
it imports.

It finds the SDK by itself, because `python3 -I` ignores PYTHONPATH; with what an
interpreter has loaded in any case, so that this costs nothing."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import bullpen  # noqa: E402

for name in sys.argv[1:]:
    __import__(name)


@bullpen.task(name="rest")
def rest(payload: bytes) -> bytes:
    # Long enough for every idle worker of a pool to get one at the same time.
    import time

    time.sleep(0.05)
    return b""


bullpen.run()
