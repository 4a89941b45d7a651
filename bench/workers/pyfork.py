"""The least that forking a warm Python process costs: no supervision, no limits.

    pyfork.py IN_FLIGHT SECONDS MODULE...

Imports the modules, then forks children that write to a pipe and exit, with so
many at a time, and prints as JSON how long each took until it was heard, and the
seconds that all took, waiting for their ends included.
"""

import gc
import json
import os
import struct
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
in_flight, seconds = int(sys.argv[1]), float(sys.argv[2])
for name in sys.argv[3:]:
    __import__(name)
gc.collect()
gc.disable()
gc.freeze()

number = struct.Struct("<I")
reader, writer = os.pipe()
under_way = {}
took = []
begin = time.perf_counter()
while True:
    while len(under_way) < in_flight and time.perf_counter() - begin < seconds:
        began = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            os.write(writer, number.pack(os.getpid()))
            os._exit(0)
        under_way[pid] = began
    if not under_way:
        break
    pid = number.unpack(os.read(reader, number.size))[0]
    took.append(time.perf_counter() - under_way.pop(pid))
    os.waitpid(pid, 0)

json.dump({"took": took, "seconds": time.perf_counter() - begin}, sys.stdout)
