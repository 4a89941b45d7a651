"""Measures one Python pool, or a plain loop, and prints one line of JSON."""

import argparse
import collections
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import tasks
from pools import POOLS, TASKS, MultiprocessingMap, Pool

Result = Dict[str, Any]
SIZES = {"null4": 4, "null1k": 1 << 10, "sha1k": 1 << 10, "sha1m": 1 << 20}


def load(experiment: str) -> Tuple[str, bytes, bytes]:
    """The handler, the input, and the answer that every reply is compared with."""
    payload = os.urandom(SIZES[experiment])
    if experiment.startswith("sha"):
        return "hash", payload, tasks.digest(payload)
    return "null", payload, b""


def check(got: bytes, want: bytes) -> None:
    if got != want:
        raise ValueError(f"wrong answer of {len(got)} bytes")


def rate(step: Callable[[], int], span: float) -> float:
    """Tasks per second over span, after a quarter of it to warm up."""
    end = time.perf_counter() + span / 4
    while time.perf_counter() < end:
        step()
    done, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < span:
        done += step()
    return done / (now - begin)


def throughput(pool: Pool, experiment: str, span: float) -> Result:
    handler, payload, want = load(experiment)
    task = TASKS[handler]
    window = 64 if len(payload) > 1 << 16 else 2000
    if isinstance(pool, MultiprocessingMap):
        arguments = [payload] * window

        def step() -> int:
            for got in pool.map(task, arguments):
                check(got, want)
            return window

        text = f"map of {window}, chunksize 1"
    else:
        pending = collections.deque(pool.submit(task, payload) for _ in range(window))

        def step() -> int:
            check(pool.get(pending.popleft()), want)
            pending.append(pool.submit(task, payload))
            return 1

        text = f"{window} outstanding"
    return {"metrics": {"rate_per_s": rate(step, span)}, "in_flight": text}


def loop(experiment: str, processes: int, span: float) -> Result:
    """A plain loop over the load, in as many processes as asked, without any pool."""
    _, payload, want = load(experiment)

    def run() -> float:
        def step() -> int:
            check(tasks.digest(payload), want)
            return 1

        return rate(step, span)

    if processes == 1:
        return {"metrics": {"rate_per_s": run()}, "in_flight": "1 process"}
    queue: Any = multiprocessing.SimpleQueue()
    workers = [multiprocessing.Process(target=lambda: queue.put(run())) for _ in range(processes)]
    for worker in workers:
        worker.start()
    total = sum(queue.get() for _ in workers)
    return {"metrics": {"rate_per_s": total}, "in_flight": f"{processes} processes"}


def round_trip(pool: Pool, span: float) -> Result:
    took: List[int] = []
    start = last = time.perf_counter_ns()
    span_ns = int(span * 1e9)
    while last - start < span_ns * 5 // 4:
        pool.get(pool.submit(tasks.null, b"ping"))
        now = time.perf_counter_ns()
        if now - start > span_ns // 4:
            took.append(now - last)
        last = now
    took.sort()
    return {
        "metrics": {
            "p50_us": took[int((len(took) - 1) * 0.5)] / 1e3,
            "p99_us": took[int((len(took) - 1) * 0.99)] / 1e3,
            "calls": len(took),
        },
        "in_flight": "1",
    }


def cold(kind: Callable[[int], Pool], span: float) -> Result:
    took: List[float] = []
    start = time.perf_counter()
    while len(took) < 3 or (time.perf_counter() - start < span and len(took) < 15):
        begin = time.perf_counter()
        pool = kind(2)
        pool.get(pool.submit(tasks.null, b"ping"))
        took.append((time.perf_counter() - begin) * 1e3)
        pool.close()
    metrics = {"first_ms": took[0], "again_ms": statistics.median(took[1:]), "pools": len(took)}
    return {"metrics": metrics, "in_flight": "1"}


def growth(kind: Callable[[int], Pool]) -> Result:
    pool = kind(5)
    pool.get(pool.submit(tasks.null, b"ping"))
    begin = time.perf_counter()
    futures = [pool.submit(tasks.sleep, 1.0) for _ in range(5)]
    for future in futures:
        pool.get(future)
    took = (time.perf_counter() - begin) * 1e3
    return {"metrics": {"five_tasks_ms": took, "workers": len(pool.pids())}, "in_flight": "5"}


def attempt(pool: Pool, task: Callable[..., bytes], argument: Any, count: int) -> List[Any]:
    """Submits count tasks; one that the pool refuses stands as its exception."""
    futures: List[Any] = []
    for _ in range(count):
        try:
            futures.append(pool.submit(task, argument))
        except Exception as error:  # a broken pool refuses: that is the finding
            futures.append(error)
    return futures


def outcome(pool: Pool, future: Any, deadline: float) -> Tuple[str, str]:
    """How a task ended by the deadline: ok, error or hang, and the text of the error."""
    if isinstance(future, Exception):
        return "error", repr(future)
    begin = time.monotonic()
    try:
        pool.get(future, max(0.0, deadline - begin))
        return "ok", ""
    except Exception as error:
        if time.monotonic() >= deadline and type(error).__name__ == "TimeoutError":
            return "hang", ""
        return "error", f"{type(error).__name__}: {error}"[:200]


def good(pool: Pool, futures: List[Any], seconds: float) -> int:
    deadline = time.monotonic() + seconds
    return sum(outcome(pool, future, deadline)[0] == "ok" for future in futures)


def kill(kind: Callable[[int], Pool]) -> Result:
    pool = kind(2)
    metrics: Dict[str, float] = {}
    notes: Dict[str, str] = {}
    good(pool, attempt(pool, tasks.null, b"ping", 8), 2)
    long = attempt(pool, tasks.sleep, 1.0, 2)
    time.sleep(0.2)
    queued = attempt(pool, tasks.sleep, 0.1, 4)
    time.sleep(0.05)
    begin = time.monotonic()
    os.kill(pool.pids()[0], signal.SIGKILL)
    ended: Dict[int, Tuple[str, str]] = {}
    while len(ended) < 2 and time.monotonic() - begin < 5:  # both at once, in short turns
        for i, future in enumerate(long):
            if i in ended:
                continue
            state, text = outcome(pool, future, time.monotonic() + 0.0005)
            if state == "hang":
                continue
            ended[i] = (state, text)
            if state == "error" and "victim_ms" not in metrics:
                metrics["victim_ms"] = (time.monotonic() - begin) * 1e3
                notes["victim"] = text
    victims = sum(ended.get(i, ("hang", ""))[0] != "ok" for i in range(2))
    if len(ended) < 2:
        notes["victim"] = "no answer in 5 s"
    metrics["neighbour_ok"] = 2 - max(victims, 1)
    metrics["queued_ok"] = good(pool, queued, 5)
    metrics["after_ok"] = good(pool, attempt(pool, tasks.null, b"ping", 4), 3)
    metrics["workers_after"] = len(pool.pids())
    idle_kill(kind, metrics)
    return {"metrics": metrics, "notes": notes, "in_flight": "2 running, 4 queued"}


def idle_kill(kind: Callable[[int], Pool], metrics: Dict[str, float]) -> None:
    pool = kind(2)
    good(pool, attempt(pool, tasks.null, b"ping", 8), 2)
    time.sleep(0.1)
    os.kill(pool.pids()[0], signal.SIGKILL)
    metrics["idle_now_ok"] = good(pool, attempt(pool, tasks.null, b"ping", 4), 3)
    time.sleep(0.5)
    metrics["idle_later_ok"] = good(pool, attempt(pool, tasks.null, b"ping", 4), 3)


def memory(kind: Callable[[int], Pool]) -> Result:
    pool = kind(2)
    _, payload, want = load("sha1k")
    for future in [pool.submit(tasks.digest, payload) for _ in range(200)]:
        check(pool.get(future), want)
    time.sleep(0.3)
    pids = pool.pids()
    total: Dict[str, float] = collections.defaultdict(float)
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            for line in lines:
                name, _, rest = line.partition(":")
                if rest.endswith("kB\n"):
                    total[name] += int(rest.split()[0]) / 1024 / len(pids)
    uss = total["Private_Clean"] + total["Private_Dirty"]
    metrics = {"rss_mb": total["Rss"], "pss_mb": total["Pss"], "uss_mb": uss, "workers": len(pids)}
    return {"metrics": metrics, "in_flight": "0"}


def measure(system: str, experiment: str, span: float) -> Result:
    if system.startswith("loop-"):
        return loop(experiment, int(system.removeprefix("loop-")), span)
    kind = POOLS[system]
    if experiment in SIZES:
        return throughput(kind(2), experiment, span)
    if experiment in ("rtt", "rtt-one-core"):
        return round_trip(kind(2), span)
    if experiment == "cold":
        return cold(kind, span)
    return {"growth": growth, "kill": kill, "memory": memory}[experiment](kind)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-system", required=True)
    parser.add_argument("-experiment", required=True)
    parser.add_argument("-span", type=float, default=1.0)
    options = parser.parse_args()
    try:
        result = measure(options.system, options.experiment, options.span)
    except Exception as error:  # a cell that fails says so and stops nothing else
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # a pool whose ending hangs must not hold the cell: the driver cleans up


if __name__ == "__main__":
    main()
