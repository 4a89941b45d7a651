"""The Celery application of the cells: its broker and results are one Redis."""

import os
import time

from celery import Celery

url = os.environ["BENCH_REDIS"]
app = Celery("tasks", broker=url, backend=url)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=32,
    broker_pool_limit=64,
    redis_max_connections=256,
    result_expires=600,
    worker_send_task_events=False,
    task_send_sent_event=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop", ignore_result=False)
def noop(payload):
    return None


@app.task(name="stamp", ignore_result=False)
def stamp(payload):
    """Gives the machine's monotonic clock, which all its processes share."""
    return time.monotonic_ns()
