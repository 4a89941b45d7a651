"""The Python worker of the benchmark, on the SDK of this checkout."""

import base64
import hashlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))

import bullpen  # noqa: E402

UNITS = {"ms": 1e-3, "s": 1.0}


@bullpen.task(name="null")
def null(payload: bytes) -> bytes:
    return b""


@bullpen.task(name="hash", view=True)
def digest(payload: memoryview) -> bytes:
    return base64.b64encode(hashlib.sha512(payload).digest())


@bullpen.task(name="echo")
def echo(payload: bytes) -> bytes:
    return payload


@bullpen.task(name="sleep")
def sleep(payload: bytes) -> bytes:
    text = payload.decode()
    unit = "ms" if text.endswith("ms") else "s"
    time.sleep(float(text.removesuffix(unit)) * UNITS[unit])
    return b""


bullpen.run()
