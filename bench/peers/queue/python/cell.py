"""One cell of Celery: python cell.py EXPERIMENT HOST:PORT SECONDS CALLERS

Prints its figures as JSON. The worker is a process of its own, which is ended
with the group of this one.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time

experiment, address, span, callers = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
os.environ["BENCH_REDIS"] = f"redis://{address}/0"
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)

from tasks import noop, stamp  # noqa: E402  the address must be known first

PAYLOAD = "x" * 100
PRODUCERS = 4  # processes: one interpreter runs one thread at a time
IDLE_JOBS, IDLE_WARM, IDLE_PERIOD = 500, 50, 0.02
WAIT = 30


def enqueue():
    noop.apply_async((PAYLOAD,))


def finish():
    noop.apply_async((PAYLOAD,)).get(timeout=WAIT, interval=0.001)


def produce(do, threads, go, out):
    """Lets threads repeat do; puts the times of what ended within the span."""
    try:
        do()  # connections are made before the clock runs
    except Exception as fault:  # told to the driver, whatever it is
        out.put(("fault", repr(fault)))
        return
    out.put(("ready", None))
    begin = go.get() + int(span / 4 * 1e9)
    end = begin + int(span * 1e9)
    times, faults = [[] for _ in range(threads)], []

    def repeat(mine):
        try:
            at = time.monotonic_ns()
            while at < end and not faults:
                do()
                now = time.monotonic_ns()
                if begin <= now < end:
                    mine.append(now - at)
                at = now
        except Exception as fault:  # as above
            faults.append(repr(fault))

    all_threads = [threading.Thread(target=repeat, args=(mine,)) for mine in times]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    out.put(("fault", faults[0]) if faults else ("times", [t for mine in times for t in mine]))


def heard(out, timeout):
    """Gives what a producer has to tell, and raises its fault."""
    kind, got = out.get(timeout=timeout)
    if kind == "fault":
        raise RuntimeError(got)
    return got


def closed_loop(do):
    spawn = multiprocessing.get_context("fork")
    count = min(PRODUCERS, callers)
    out, gos = spawn.Queue(), [spawn.Queue() for _ in range(count)]
    producers = [spawn.Process(target=produce, args=(do, callers // count, go, out), daemon=True) for go in gos]
    for p in producers:
        p.start()
    for _ in producers:
        heard(out, WAIT)
    now = time.monotonic_ns()
    for go in gos:
        go.put(now)
    times = []
    for _ in producers:
        times += heard(out, span * 2 + WAIT)
    for p in producers:
        p.join()
    return {**quantiles(times), "rate": len(times) / span}


def quantiles(times):
    times.sort()

    def at(q):
        return times[min(len(times) - 1, int(q * len(times)))] / 1e6

    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "most_ms": at(1), "count": len(times)}


def single_jobs():
    begun, results = [], []
    due = time.monotonic()
    for _ in range(IDLE_WARM + IDLE_JOBS):
        due += IDLE_PERIOD
        time.sleep(max(0, due - time.monotonic()))
        begun.append(time.monotonic_ns())
        results.append(stamp.apply_async((PAYLOAD,)))
    at = [r.get(timeout=WAIT) for r in results]
    return quantiles([a - b for a, b in zip(at, begun)][IDLE_WARM:])


def start_worker():
    """Starts the worker, and waits for its first result.

    A forked child does that, so that no connection is shared by a later fork.
    """
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "2",
         "--loglevel", "error", "--without-gossip", "--without-mingle", "--without-heartbeat"],
        cwd=here, stdout=sys.stderr, env={**os.environ, "C_FORCE_ROOT": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    first = multiprocessing.get_context("fork").Process(target=lambda: noop.delay(PAYLOAD).get(timeout=WAIT))
    first.start()
    first.join()
    if first.exitcode != 0:
        worker.kill()
        raise RuntimeError("the worker does not answer")
    return worker


def main():
    worker = None
    try:
        if experiment in ("end2end64", "idle"):
            worker = start_worker()
        metrics = {"enqueue64": lambda: closed_loop(enqueue), "enqueue1": lambda: closed_loop(enqueue),
                   "end2end64": lambda: closed_loop(finish), "idle": single_jobs}[experiment]()
        answer = {"metrics": metrics}
    except Exception as fault:  # told to the driver, whatever it is
        answer = {"error": repr(fault)}
    if worker is not None:
        worker.terminate()
        worker.wait(timeout=WAIT)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
