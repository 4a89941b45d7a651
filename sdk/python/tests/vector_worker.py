"""The handlers that protocol/vectors asks for, in their order."""

from typing import Iterator

import bullpen


@bullpen.task
def echo(payload: bytes) -> bytes:
    return payload


@bullpen.task
def fail(payload: bytes) -> bytes:
    raise bullpen.Failed(payload.decode("utf-8", "replace"), retry=not payload.startswith(b"!"))


@bullpen.task
def meta(payload: bytes, task: bullpen.Task) -> bytes:
    pairs = [f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in task.meta.items()]
    return b"\n".join(sorted(pairs))


@bullpen.task
def big(payload: bytes) -> bytes:
    return bytes(int(payload))


@bullpen.task(name="*")
def anything(payload: bytes, task: bullpen.Task) -> str:
    return "any:" + task.name


@bullpen.task
def chunks(payload: bytes) -> Iterator[bytes]:
    for at in range(len(payload)):
        yield payload[at:at + 1]


if __name__ == "__main__":
    bullpen.run()
