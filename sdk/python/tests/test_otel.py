"""The spans of handlers hang below the run that the host tells of."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import pytest

SOURCE = """
import json
from bullpen import otel

@bullpen.task
def header(data, task):
    return task.traceparent

@bullpen.task
def inside(data, task):
    from opentelemetry.sdk.trace import TracerProvider
    tracer = TracerProvider().get_tracer("test")
    seen = []
    def note(span):
        c = span.get_span_context()
        seen.append([f"{c.trace_id:032x}", f"{span.parent.span_id:016x}" if span.parent else None, c.trace_flags, c.trace_state.to_header()])
    with otel.span(task):
        note(tracer.start_span("in"))
    note(tracer.start_span("behind"))
    note(tracer.start_span("given", context=otel.context(task)))
    return json.dumps(seen)

@bullpen.task
def without(data, task):
    import sys
    sys.modules["opentelemetry.context"] = None
    try:
        with otel.span(task):
            return "no error"
    except ImportError as e:
        return str(e)
"""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
META = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=b"}


def test_header(start: Any) -> None:
    host = start(SOURCE)
    assert host.result(host.task(1, meta=META)) == META["traceparent"].encode()
    assert host.result(host.task(1)) == b""


@pytest.mark.parametrize("meta,parent,state", [(META, SPAN, "a=b"), (None, None, ""), ({"traceparent": "00-1"}, None, "")])
def test_spans(start: Any, meta: Optional[Dict[str, str]], parent: Optional[str], state: str) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    host = start(SOURCE)
    rest: Dict[str, Any] = {"meta": meta} if meta else {}
    number = host.task(2, **rest)
    inside, behind, given = json.loads(host.result(number))  # type: List[Any], List[Any], List[Any]
    for span in (inside, given):
        assert (span[1], span[2] & 1, span[3]) == (parent, 1, state)
        assert (span[0] == TRACE) == (parent is not None)
    assert behind[1] is None and behind[0] != TRACE


def test_without(start: Any) -> None:
    host = start(SOURCE)
    assert b"pip install opentelemetry-api" in host.result(host.task(3, meta=META))
