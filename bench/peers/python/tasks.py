"""The handlers, in a module of their own so that every pool can pickle them by name."""

import base64
import hashlib
import time


def null(payload: bytes) -> bytes:
    return b""


def digest(payload: bytes) -> bytes:
    return base64.b64encode(hashlib.sha512(payload).digest())


def sleep(seconds: float) -> bytes:
    time.sleep(seconds)
    return b""
