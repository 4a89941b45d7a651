"""A worker of one of twenty kinds of tasks, for the measurement of what
reclaiming idle workers saves. Its arguments are the modules that it imports."""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))

import bullpen  # noqa: E402

modules = [importlib.import_module(name) for name in sys.argv[1:]]


@bullpen.task(name="work")
def work(payload: bytes) -> bytes:
    # Some thousand objects that live for the length of the task.
    rows = [{"id": n, "text": str(n) * 3} for n in range(2000)]
    return b"%d %d" % (len(rows), len(modules))


bullpen.run()
