"""Python's pools behind one face: submit, pids, close."""

import concurrent.futures
import multiprocessing
from typing import Any, Callable, List

import tasks


class Pool:
    """What a cell needs of a pool. Waiting is get(timeout) on what submit returns."""

    pool: Any

    def submit(self, task: Callable[..., bytes], argument: Any) -> Any:
        return self.pool.submit(task, argument)

    @staticmethod
    def get(future: Any, timeout: float = 60) -> bytes:
        return future.result(timeout)

    def pids(self) -> List[int]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Executor(Pool):
    """concurrent.futures.ProcessPoolExecutor, with its default start method."""

    def __init__(self, most: int) -> None:
        self.pool = concurrent.futures.ProcessPoolExecutor(max_workers=most)

    def pids(self) -> List[int]:
        return sorted(p.pid for p in (self.pool._processes or {}).values() if p.is_alive())

    def close(self) -> None:
        self.pool.shutdown(wait=True)


class Multiprocessing(Pool):
    """multiprocessing.Pool by apply_async."""

    def __init__(self, most: int) -> None:
        self.pool = multiprocessing.Pool(most)

    def submit(self, task: Callable[..., bytes], argument: Any) -> Any:
        return self.pool.apply_async(task, (argument,))

    @staticmethod
    def get(future: Any, timeout: float = 60) -> bytes:
        return future.get(timeout)

    def pids(self) -> List[int]:
        return sorted(p.pid for p in self.pool._pool if p.is_alive())

    def close(self) -> None:
        self.pool.terminate()


class MultiprocessingMap(Multiprocessing):
    """multiprocessing.Pool by map with chunksize=1."""

    def map(self, task: Callable[..., bytes], arguments: List[Any]) -> List[bytes]:
        return self.pool.map(task, arguments, chunksize=1)


class Loky(Executor):
    """loky.ProcessPoolExecutor."""

    def __init__(self, most: int) -> None:
        import loky

        self.pool = loky.ProcessPoolExecutor(max_workers=most)


class Pebble(Pool):
    """pebble.ProcessPool."""

    def __init__(self, most: int) -> None:
        import pebble

        self.pool = pebble.ProcessPool(max_workers=most)

    def submit(self, task: Callable[..., bytes], argument: Any) -> Any:
        return self.pool.schedule(task, args=(argument,))

    def pids(self) -> List[int]:
        return sorted(p.pid for p in self.pool._pool_manager.worker_manager.workers.values() if p.is_alive())

    def close(self) -> None:
        self.pool.stop()
        self.pool.join()


POOLS = {
    "ppe": Executor,
    "mp-map": MultiprocessingMap,
    "mp-apply": Multiprocessing,
    "loky": Loky,
    "pebble": Pebble,
}

TASKS = {"null": tasks.null, "hash": tasks.digest}
