"""``python -m bullpen thumbnails``: import a module and serve its tasks."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys

from ._registry import registry
from ._start import run


def load(name: str) -> None:
    """Import the module name, or the file that it names."""
    if not name.endswith(".py"):
        importlib.import_module(name)
        return
    stem = os.path.splitext(os.path.basename(name))[0]
    spec = importlib.util.spec_from_file_location(stem, name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
    spec.loader.exec_module(module)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bullpen", description="Import modules and serve their tasks.")
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="module name, or file that ends in .py")
    parser.add_argument("--concurrency", type=int, default=64, metavar="N",
                        help="number of async handlers that run at the same time (default 64)")
    options = parser.parse_args()
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in options.modules:
        load(name)
    if not registry.entries:
        parser.error(f"{', '.join(options.modules)} has no tasks: put @bullpen.task above a function")
    run(options.concurrency)


if __name__ == "__main__":
    main()
