"""Make the spans of a handler children of the task's run.

Needs ``opentelemetry-api``; the SDK that sends the spans is the program's own::

    from bullpen import otel

    @bullpen.task
    def resize(data: bytes, task: bullpen.Task) -> bytes:
        with otel.span(task):
            with tracer.start_as_current_span("resize"):
                ...
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from ._task import Task

__all__ = ["context", "span"]


def context(task: Task) -> Any:
    """The context of OpenTelemetry in which a task runs: that of its run, or an empty one.

    It is for ``tracer.start_span(..., context=...)``, in threads too. Costs a parse.
    Raises ImportError, saying what to install, without ``opentelemetry-api``.
    """
    try:
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError as e:
        raise ImportError("bullpen.otel needs OpenTelemetry: pip install opentelemetry-api") from e
    return TraceContextTextMapPropagator().extract(dict(task.meta), context=Context())


@contextmanager
def span(task: Task) -> Iterator[None]:
    """Make the run of a task the current span while the block runs.

    Spans that the block starts are its children. Raises ImportError as ``context`` does.
    """
    current = context(task)
    from opentelemetry.context import attach, detach

    token = attach(current)
    try:
        yield
    finally:
        detach(token)
