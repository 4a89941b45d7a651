"""The handlers of this program, in the order in which they were registered."""

from __future__ import annotations

import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar, Union, overload

from ._task import Task

Handler = TypeVar("Handler", bound=Callable[..., Any])

ANY = "*"


class Entry(NamedTuple):
    """One handler with what was learned about it at registration."""

    name: str
    call: Callable[..., Any]
    wants_task: bool
    view: bool
    is_async: bool
    #: Whether it is a generator, which yields its result in pieces.
    streams: bool


class Registry:
    """Handlers by name; the place in `entries` plus one is the handler's number."""

    def __init__(self) -> None:
        self.entries: List[Entry] = []
        self._names: Dict[str, Entry] = {}

    def add(self, call: Callable[..., Any], name: Optional[str] = None, view: bool = False) -> Entry:
        """Register call, or raise TypeError or ValueError with what is wrong about it."""
        if name is None:
            name = getattr(call, "__name__", "")
        if not isinstance(name, str):
            raise TypeError(f"the name of a task must be a str, not {name!r}")
        if not name or "\n" in name:
            raise ValueError(f"{name!r} cannot be the name of a task; choose another one: @bullpen.task(name=\"...\")")
        name.encode("utf-8")
        if name in self._names:
            raise ValueError(f"two tasks have the name {name!r}")
        if len(self.entries) >= 65535:
            raise ValueError("a worker can have at most 65535 tasks")
        if not callable(call):
            raise TypeError(f"a task must be a function, not {call!r}")
        takes_task, is_async, streams = _learn(call, name)
        entry = Entry(name, call, takes_task, view, is_async, streams)
        self.entries.append(entry)
        self._names[name] = entry
        return entry

    @property
    def any_async(self) -> bool:
        """Whether some handler is a coroutine function."""
        return any(entry.is_async for entry in self.entries)


_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # bits of co_flags


def _learn(call: Callable[..., Any], name: str) -> "tuple[bool, bool, bool]":
    """Whether call wants the Task, is async, and is a generator."""
    if type(call) is types.FunctionType and not call.__kwdefaults__ and not hasattr(call, "__wrapped__"):
        code = call.__code__
        simple = not call.__defaults__ and code.co_argcount in (1, 2)
        if simple and not code.co_kwonlyargcount:
            # What nearly every handler is. `inspect` would cost each start 10 ms.
            is_async = bool(code.co_flags & (_COROUTINE | _ASYNC_GENERATOR)) or _marked(call)
            return code.co_argcount == 2, is_async, bool(code.co_flags & (_GENERATOR | _ASYNC_GENERATOR))
    return _inspect(call, name)


def _marked(call: Callable[..., Any]) -> bool:
    """Whether inspect.markcoroutinefunction was used on call."""
    return hasattr(call, "_is_coroutine_mark")


def _inspect(call: Callable[..., Any], name: str) -> "tuple[bool, bool, bool]":
    import inspect

    bodies = (call, getattr(call, "__call__", None))
    streams_async = any(map(inspect.isasyncgenfunction, bodies))
    is_async = streams_async or any(map(inspect.iscoroutinefunction, bodies))
    streams = streams_async or any(map(inspect.isgeneratorfunction, bodies))
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError):
        return False, is_async, streams  # a built-in that does not tell: it gets the payload
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    needed = [p for p in plain if p.default is p.empty]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(needed) > 2 or keywords or (not plain and not rest):
        raise TypeError(f"task {name!r} must take the payload, and may take the task: (payload) or (payload, task)")
    if len(plain) < 2:
        return False, is_async, streams
    second = plain[1]
    annotation = second.annotation
    says_task = annotation is Task or (isinstance(annotation, str) and annotation.split(".")[-1] == "Task")
    # A second parameter with a default is the function's own, unless it asks for a Task.
    return second.default is second.empty or says_task, is_async, streams


registry = Registry()


@overload
def task(handler: Handler, /) -> Handler: ...


@overload
def task(*, name: Optional[str] = None, view: bool = False) -> Callable[[Handler], Handler]: ...


def task(
    handler: Optional[Handler] = None, /, *, name: Optional[str] = None, view: bool = False
) -> Union[Handler, Callable[[Handler], Handler]]:
    """Make a function a task: ``@bullpen.task`` or ``@bullpen.task(name="resize", view=True)``.

    The function takes the payload as bytes and, if it has a second parameter,
    the `Task`. It returns bytes, bytearray, memoryview, str (sent as UTF-8) or
    None (an empty result). It may be ``async def``.

    A function with ``yield`` sends its result in pieces, which callers that ask
    for it receive as they come; all others get the whole. What it returns in
    the end, if anything, is the last piece.

    With ``view=True`` the payload is a memoryview on the worker's own memory,
    without a copy; it, and slices of it, must not be used once the task is
    answered. The name ``"*"`` takes every task that has no handler of its own.

    The function itself comes back unchanged, so that it can be called and tested.
    """
    if handler is not None:
        registry.add(handler, name, view)
        return handler

    def register(call: Handler) -> Handler:
        registry.add(call, name, view)
        return call

    return register
