"""Calls that are ended from outside."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Iterator

import pytest
from bullpen import client as api
from fake_server import PATIENCE, Server, slow


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


def test_canceled_calls_close_their_connection(server: Server) -> None:
    async def main() -> None:
        async with api.AsyncClient(server.url) as client:
            for call in (client.status, lambda: client.run_ephemeral("p"), lambda: client.enqueue("p", key="k")):
                server.faults = [slow]
                server.reached.clear()
                task = asyncio.ensure_future(call())  # type: ignore[arg-type]
                await asyncio.get_running_loop().run_in_executor(None, server.reached.wait, PATIENCE)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await asyncio.get_running_loop().run_in_executor(None, server.gone.wait, PATIENCE)
                server.gone.clear()
                assert (await client.status()).ready  # by another connection
            task = asyncio.ensure_future(client.status())
            task.cancel()  # before it has begun
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [seen.path for seen in server.seen].count("/v1/pools/p/run") == 1

    asyncio.run(main(), debug=True)


def test_an_interrupt_closes_the_connection(server: Server) -> None:
    """A task that is to end is interrupted wherever it is: no other call may read what was meant for it."""
    class Stop(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with api.Client(server.url) as client:
            client.status()
            server.faults = [slow]

            def kick() -> None:
                server.reached.wait(PATIENCE)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

            thread = threading.Thread(target=kick)
            thread.start()
            with pytest.raises(Stop):
                client.status()
            thread.join()
            assert server.gone.wait(PATIENCE)
            assert client.run("p", b"x") == b"X"
    finally:
        signal.signal(signal.SIGUSR1, before)
