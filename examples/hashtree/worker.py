"""A worker whose one task, hash, is the SHA-512 of its payload in base64."""

import base64
import hashlib

import bullpen


@bullpen.task(name="hash")
def sha512(content: bytes) -> bytes:
    return base64.b64encode(hashlib.sha512(content).digest())


bullpen.run()
