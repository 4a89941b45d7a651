"""Prints, log records, raw writes, threads, children, and starts by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, List, Tuple

import pytest
from host import ERROR, HERE, LOG, PROGRESS, RESULT, Host

MEM = 1 << 20


def logs_until_answer(host: Host) -> Tuple[List[Tuple[int, int, int, str]], Any]:
    found = []
    while True:
        got = host.read()
        assert got is not None, host.errors()
        if got.kind != LOG:
            return found, got
        found.append((got.id, got.aux, got.code, got.body.decode()))


def test_prints_belong_to_their_task(start: Any) -> None:
    host = start("""
        import sys
        @bullpen.task
        def talk(data):
            print("one", 1); print("two\\nthree\\r"); print("grüße", file=sys.stderr)
            sys.stdout.buffer.write(b"raw \\xff bytes\\n")
            print("half", end="")
            print("x" * 9000)
            print("last", end="", flush=True)
        @bullpen.task
        def quiet(data): return sys.stdout.encoding + str(sys.stdout.fileno()) + str(sys.stdout.isatty())
        """, mem=MEM)
    host.send(host.next_task(2) + host.next_task(1) + host.next_task(2))
    assert host.result(1) == b"utf-81False"  # before the lines of task 2
    lines, answer = logs_until_answer(host)
    assert answer.kind == RESULT and answer.id == 2
    out, err = 32768, 32776
    assert lines == [
        (2, 1, out, "one 1"), (2, 1, out, "two"), (2, 1, out, "three"), (2, 2, err, "grüße"),
        (2, 1, out, "raw \ufffd bytes"), (2, 1, out, "half" + "x" * 8188), (2, 1, out, "last")]
    assert host.result(3) == b"utf-81False"
    assert host.end() == (0, "", "")


def test_logging(start: Any) -> None:
    host = start("""
        import logging
        @bullpen.task
        def talk(data, task):
            log = logging.getLogger("app")
            log.setLevel(logging.DEBUG)
            log.debug("d"); log.info("i %d", 1); log.warning("w"); log.critical("c")
            try:
                1 / 0
            except ZeroDivisionError:
                log.exception("e")
            task.log("own"); task.log("two\\nlines", logging.ERROR)
        """, mem=MEM)
    host.task(1)
    lines, answer = logs_until_answer(host)
    assert answer.kind == RESULT
    assert {(number, stream) for number, stream, _, _ in lines} == {(1, 0)}
    short = [(code - 32768, text) for _, _, code, text in lines]
    assert short[:5] == [(-4, "app: d"), (0, "app: i 1"), (4, "app: w"), (12, "app: c"), (8, "app: e")]
    assert short[5][1].startswith("Traceback") and "ZeroDivisionError" in short[-4][1]
    assert short[-3:] == [(0, "own"), (8, "two"), (8, "lines")]


def test_logging_that_is_imported_late(start: Any) -> None:
    host = start("""
        import sys
        @bullpen.task
        def talk(data):
            there = "logging" in sys.modules
            import logging
            logging.getLogger("app").warning("w")
            return str(there)
        """, mem=MEM)
    host.task(1)
    lines, answer = logs_until_answer(host)
    assert (lines, answer.body) == ([(1, 2, 32776, "w")], b"False")  # logging's last resort: standard error
    host.task(1)
    lines, _ = logs_until_answer(host)
    assert lines == [(2, 0, 32772, "app: w")]


def test_a_configured_stream_handler_is_tagged_too(start: Any) -> None:
    host = start("""
        import logging
        logging.basicConfig(format="%(levelname)s %(message)s")
        @bullpen.task
        def talk(data): logging.warning("careful")
        """)
    host.task(1)
    lines, _ = logs_until_answer(host)
    assert lines == [(1, 2, 32776, "WARNING careful")]


def test_raw_writes_go_to_the_pipes(start: Any) -> None:
    host = start("""
        import os, subprocess, sys
        print("while it starts")
        @bullpen.task
        def talk(data):
            os.write(1, b"raw\\n")
            subprocess.run([sys.executable, "-c", "print('child')"], check=True)
            subprocess.run([sys.executable, "-c", "print('given')"], stdout=sys.stdout, check=True)
            return b"done"
        """, mem=MEM)
    host.task(1)
    assert host.result() == b"done"
    status, out, err = host.end()
    assert (status, sorted(out.split("\n")), err) == (0, ["", "child", "given", "raw", "while it starts"], "")


def test_standard_streams_as_channel(start: Any) -> None:
    host = start("""
        import os, sys
        @bullpen.task
        def talk(data):
            os.write(1, b"raw\\n")
            print("print")
            return str(sys.stdin.read() == "")
        """, stdio=True)
    host.task(1)
    lines, answer = logs_until_answer(host)
    assert [line[3] for line in lines] == ["print"] and answer.body == b"True"
    assert host.errors() == "raw\n"


def test_threads_print_and_report(start: Any) -> None:
    host = start("""
        import threading
        @bullpen.task
        def talk(data, task):
            def work(i):
                for j in range(200):
                    print("thread", i, "line", j)
                    task.progress(j / 200, str(i))
                print("tail", i, end="")
            threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
            for t in threads: t.start()
            for t in threads: t.join()
        """, mem=MEM)
    for _ in range(3):
        number = host.task(1)
        seen, progress = [], 0
        while True:
            got = host.read()
            if got.kind == RESULT:
                break
            assert got.id == number
            if got.kind == PROGRESS:
                progress += 1
            else:
                seen.append(got.body.decode())
        assert progress == 1600
        assert sorted(seen) == sorted([f"thread {i} line {j}" for i in range(8) for j in range(200)]
                                      + [f"tail {i}" for i in range(8)])


def test_progress(start: Any) -> None:
    host = start("""
        @bullpen.task
        def steps(data, task):
            for part in (0, 0.5, 1.0, 7, -1, float("nan"), 1/3): task.progress(part, "ü")
        """, mem=MEM)
    host.task(1)
    parts = [host.expect(PROGRESS, 1) for _ in range(7)]
    assert [p.aux for p in parts] == [0, 500000, 1000000, 1000000, 0, 0, 333333]
    assert {p.body for p in parts} == {"ü".encode()}


@pytest.mark.parametrize("mem", [0, MEM])
def test_children_that_a_handler_forks(start: Any, mem: int) -> None:
    host = start("""
        import os, multiprocessing
        def descriptors():
            links = []
            for fd in os.listdir("/proc/self/fd"):
                try: links.append(os.readlink("/proc/self/fd/" + fd))
                except OSError: pass
            return links
        def body(q):
            print("child prints", flush=True)
            q.put([x for x in descriptors() if "bullpen" in x])
            q.close(); q.join_thread()
        @bullpen.task
        def fork(data):
            mine = descriptors()
            r, w = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(r)
                ours = [x for x in descriptors() if x in mine and ("bullpen" in x or x in CHANNEL)]
                os.write(w, repr(ours).encode())
                os._exit(0)
            os.close(w)
            os.waitpid(pid, 0)
            return os.read(r, 65536)
        @bullpen.task
        def stray(data):
            pid = os.fork()
            if pid:
                return str(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
        @bullpen.task
        def process(data):
            context = multiprocessing.get_context("fork")
            q = context.Queue()
            p = context.Process(target=body, args=(q,))
            p.start()
            found = q.get(); p.join()
            return repr((found, p.exitcode))
        @bullpen.task
        def leaves(data):
            import sys
            pid = os.fork()
            if not pid:
                sys.exit(5)
            return str(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
        parts = dict(p.split("=") for p in os.environ["BULLPEN_WORKER"].split(",")[1:])
        CHANNEL = [os.readlink("/proc/self/fd/" + parts[k]) for k in ("in", "out")]
        """, mem=mem)
    for code, want in ((1, b"[]"), (2, b"1"), (3, b"([], 0)"), (4, b"5"), (1, b"[]")):
        number = host.task(code)
        assert host.result(number) == want, code
    host.number += 1
    status, out, err = host.end()
    assert (status, out) == (0, "child prints\n")
    assert err == "bullpen: a forked child returned from its handler; end it with os._exit\n"


def test_variable_is_gone_and_descriptors_are_not_inherited(start: Any) -> None:
    host = start("""
        import os, subprocess
        @bullpen.task
        def look(data):
            listing = subprocess.run(["ls", "/proc/self/fd"], close_fds=False, capture_output=True, check=True).stdout
            return str(("BULLPEN_WORKER" in os.environ, sorted(int(x) for x in listing.split())))
        """, mem=MEM)
    host.task(1)
    assert host.result() == b"(False, [0, 1, 2, 3])"  # 3 is the folder that ls reads


def run_by_hand(argv: List[str], **env: str) -> "subprocess.CompletedProcess[str]":
    clean = {k: v for k, v in os.environ.items() if k != "BULLPEN_WORKER"}
    return subprocess.run([sys.executable, *argv], env=dict(clean, PYTHONPATH=str(HERE.parent), **env),
                          capture_output=True, text=True, timeout=20)


def test_started_by_hand() -> None:
    script = str(HERE / "vector_worker.py")
    got = run_by_hand([script])
    assert (got.returncode, got.stdout) == (2, "")
    assert f"bullpen map --protocol frames --task echo -- python3 {script}" in got.stderr
    got = run_by_hand(["-m", "bullpen", script])
    assert got.returncode == 2
    assert f"--task echo -- python3 -m bullpen {script}" in got.stderr


@pytest.mark.parametrize("value, say", [
    ("v2,in=3,out=4", "version 'v2'"), ("", "version ''"), ("v1,in=3", "in and out are required"),
    ("v1,in=x,out=4", "'in=x' does not name a descriptor"), ("v1,in=777,out=778", "must be open")])
def test_variable_that_cannot_be(value: str, say: str) -> None:
    got = run_by_hand([str(HERE / "vector_worker.py")], BULLPEN_WORKER=value)
    assert got.returncode == 2 and say in got.stderr and got.stderr.count("\n") == 1


def test_module_command(tmp_path: Path) -> None:
    (tmp_path / "thumbs.py").write_text("import bullpen\n@bullpen.task\ndef thumb(data): return data[:2]\n")
    for name in ("thumbs", "thumbs.py"):
        host = Host(["-m", "bullpen", name], cwd=str(tmp_path))
        try:
            host.task(1, b"abc")
            assert host.result() == b"ab"
            assert host.end() == (0, "", "")
        finally:
            host.kill()
    (tmp_path / "empty.py").write_text("")
    env = dict(os.environ, PYTHONPATH=str(HERE.parent))
    got = subprocess.run([sys.executable, "-m", "bullpen", "empty"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert got.returncode == 2 and "has no tasks" in got.stderr


def test_host_that_stops_reading(start: Any) -> None:
    host = start()
    os.close(host.r)
    host.r = -1
    host.task(1, b"x")
    status, _, err = host.end()
    assert status == 1 and err == "bullpen: cannot write to the host: Broken pipe\n"


def test_host_that_stops_reading_while_a_handler_prints(start: Any) -> None:
    host = start("""
        @bullpen.task
        def talk(data):
            while True: print("x" * 100)
        """)
    host.task(1)
    host.expect(LOG)
    os.close(host.r)
    host.r = -1
    assert host.process.wait(20) == 1


def test_errors_say_what_happened(start: Any) -> None:
    host = start("""
        class Odd(Exception):
            def __str__(self): raise RuntimeError
        class Strange(BaseException): pass
        @bullpen.task
        def bad(data):
            raise {b"v": ValueError("no " + "x" * 20000), b"o": Odd(), b"s": Strange("hm"),
                   b"f": bullpen.Failed("no such user", retry=False), b"m": MemoryError()}[data]
        @bullpen.task
        def deep(data): return deep(data)
        @bullpen.task
        def number(data): return 7
        @bullpen.task
        def lone(data): return "\\ud800"
        @bullpen.task
        def kinds(data): return {b"a": bytearray(b"x"), b"v": memoryview(b"xyz")[::2], b"s": "ü", b"n": None,
                                 b"e": memoryview(b"")}[data]
        """, mem=MEM)
    seen = {}
    for data in b"vosfm":
        host.task(1, bytes([data]))
        got = host.expect(ERROR)
        seen[chr(data)] = (got.code, got.flags, got.pairs)
    code, flags, pairs = seen["v"]
    assert (code, flags, pairs["type"]) == (1, 0, "ValueError")
    assert len(pairs["message"]) < 17000 and len(pairs["stack"]) < 17000 and pairs["stack"].startswith("...")
    assert seen["o"][0] == 1 and seen["o"][2]["type"] == "__main__.Odd"
    assert seen["s"][0] == 2 and "in bad" in seen["s"][2]["stack"] and "_run_batch" not in seen["s"][2]["stack"]
    assert seen["f"] == (1, 16, {"type": "bullpen.Failed", "message": "no such user"})
    assert seen["m"][0] == 1
    host.task(2)
    assert host.expect(ERROR).pairs["type"] == "RecursionError"
    host.task(3)
    got = host.expect(ERROR)
    assert (got.code, got.pairs["type"]) == (1, "TypeError") and "not int" in got.pairs["message"]
    host.task(4)
    assert host.expect(ERROR).pairs["type"] == "UnicodeEncodeError"
    for data, want in ((b"a", b"x"), (b"v", b"xz"), (b"s", "ü".encode()), (b"n", b""), (b"e", b"")):
        host.task(5, data)
        assert host.result() == want


def test_tasks_behind_a_drain_are_given_back(start: Any) -> None:
    host = start(mem=MEM)
    host.send(host.next_task(1, b"a") + b"\0\0\0\0\x0b" + bytes(11) + host.next_task(1, b"b"))
    assert host.result(1) == b"a"
    assert host.expect(5, 2).body == b""
    assert host.read() is None
    assert host.process.wait(20) == 0
