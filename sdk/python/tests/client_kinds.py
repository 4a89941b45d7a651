"""Both clients behind one face, so that each case is written once."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Iterator

from bullpen.client import AsyncClient, AsyncJob, Client

KINDS = ("sync", "async")


class Ordinary:
    """An AsyncClient, used as if it were a Client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_debug(True)
        self.inner: Any = AsyncClient(*args, **options)

    def __enter__(self) -> "Ordinary":
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run_until_complete(self.inner.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        left = asyncio.all_tasks(self.loop)
        self.loop.close()
        assert not left

    def __getattr__(self, name: str) -> Any:
        return Face(self.loop, getattr(self.inner, name))


class Face:
    """A value of the async side: calls are run to their end, iterators are iterated."""

    def __init__(self, loop: asyncio.AbstractEventLoop, value: Any) -> None:
        self.loop = loop
        self.value = value

    def __call__(self, *args: Any, **options: Any) -> Any:
        value = self.value(*args, **options)
        if inspect.isawaitable(value):
            value = self.loop.run_until_complete(value)
        return self.wrap(value)

    def wrap(self, value: Any) -> Any:
        if hasattr(value, "__anext__"):
            return self.iterate(value)
        return JobFace(self.loop, value) if isinstance(value, AsyncJob) else value

    def iterate(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.wrap(self.loop.run_until_complete(items.__anext__()))
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run_until_complete(items.aclose())


class JobFace(Face):
    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)
        return Face(self.loop, found) if callable(found) else found


def make(kind: str, *args: Any, **options: Any) -> Any:
    """A client of that kind."""
    return Client(*args, **options) if kind == "sync" else Ordinary(*args, **options)
