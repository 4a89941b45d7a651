"""What schemathesis has to know of the API: how lines of JSON are written."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(_context, value):
    """Write one JSON value a line; a string is taken as it is."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    values = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(v).encode() + b"\n" for v in values)
