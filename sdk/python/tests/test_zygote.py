"""The fork server of Python workers, process/zygote.py: a forked worker is as one that was started."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import textwrap
import zipfile
from pathlib import Path
from typing import Tuple

import pytest
from host import HELLO, RESULT, TASK, frame, pairs_of, read_pairs
from zygote_host import needs_zygote, SDK, wait

pytestmark = needs_zygote


# What a program can see of how it was started.
REPORT = """
import gc, json, os, signal, sys, threading
def stream(s):
    return [s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.isatty(),
            s.fileno(), s.closed, s.buffer.seekable(), type(s.buffer).__name__]
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", [])[1:], "path": sys.path, "flags": str(sys.flags),
    "main": sorted(k for k in vars(main) if k != "__annotations__"), "name": __name__, "package": __package__,
    "file": globals().get("__file__"), "spec": __spec__ and __spec__.name, "loader": str(__loader__).split(" at ")[0],
    "doc": __doc__, "cached": globals().get("__cached__"), "same": vars(main) is globals(),
    "streams": [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "originals": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "gc": [gc.isenabled(), gc.get_threshold()], "cwd": os.getcwd(), "environ": dict(os.environ),
    "signals": {int(n): str(signal.getsignal(n)).split(" at ")[0] for n in signal.valid_signals()},
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "wakeup": signal.set_wakeup_fd(-1),
    "threads": threading.active_count(), "main_thread": threading.current_thread() is threading.main_thread(),
    "ident": threading.get_native_id() == os.getpid(), "fds": sorted(os.listdir("/proc/self/fd")),
    "excepthook": sys.excepthook is sys.__excepthook__,
}, sort_keys=True))
"""


@pytest.mark.parametrize("options", [("-S",), ("-I", "-S"), ("-u", "-O"), ("-Xdev", "-B")])
def test_a_program_sees_no_difference(tmp_path: Path, zygote: type, options: Tuple[str, ...]) -> None:
    (tmp_path / "pkg").mkdir()
    for name in ("script.py", "pkg/__init__.py", "pkg/mod.py", "pkg/__main__.py"):
        (tmp_path / name).write_text('"""A text."""\n' + REPORT if name != "pkg/__init__.py" else "")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(REPORT)
    (tmp_path / "link.py").symlink_to("pkg/mod.py")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", REPORT)
    forms = [["script.py", "a", "-m"], [str(tmp_path / "script.py")], ["link.py"], ["folder", "x"], ["archive.zip"],
             ["-c", REPORT, "a", "b"], ["-m", "pkg.mod", "a"], ["-m", "pkg"], ["-m", "no.such"]]
    for form in forms:
        server = zygote(form[0], options=options, cwd=tmp_path)
        assert server.ready, server.text
        for _ in range(2):
            forked, started = server.run(*form), server.exec(*form)
            if started.code == 0:
                seen, wanted = json.loads(forked.out), json.loads(started.out)
                assert {k: v for k, v in seen.items() if v != wanted[k]} == {
                    k: v for k, v in wanted.items() if v != seen[k]}, form
            assert forked == started, form


@pytest.mark.parametrize("program", [
    "import nothing_like_this",
    "def f():\n    g()\ndef g():\n    raise ValueError('x')\nf()",
    "raise SystemExit('text')",
    "raise SystemExit(7)",
    "raise SystemExit((1, 2))",
    "raise KeyboardInterrupt",
    "x = = 1",
    "import threading\nthreading.Thread(target=lambda: 1 / 0, name='t').start()",
    "import atexit\natexit.register(print, 'bye')\natexit.register(lambda: 1 / 0)\nprint('hello')",
    "import sys, os\nprint('lost?')\nos.close(1)",
    "class C:\n    def __del__(self):\n        print('gone')\nc = C()\nc.c = c",
    "try:\n    1 / 0\nexcept Exception as e:\n    raise RuntimeError('y') from e",
])
def test_a_program_ends_no_differently(tmp_path: Path, zygote: type, program: str) -> None:
    (tmp_path / "script.py").write_text(program)
    for form in (["script.py"], ["-c", program]):
        server = zygote(form[0], cwd=tmp_path)
        forked, started = ([re.sub("0x[0-9a-f]+", "0x", str(field)) for field in end]
                           for end in (server.run(*form), server.exec(*form)))
        assert forked == started


def test_pyc_and_missing_script(tmp_path: Path, zygote: type) -> None:
    import py_compile

    (tmp_path / "w.py").write_text("import sys\nprint(__file__, sys.argv)")
    py_compile.compile(str(tmp_path / "w.py"), cfile=str(tmp_path / "w.pyc"), doraise=True)
    server = zygote("w.pyc", cwd=tmp_path)
    assert server.run("w.pyc") == server.exec("w.pyc")
    with pytest.raises(RuntimeError, match=r"can't open file 'none\.py': \[Errno 2\] No such file"):
        server.run("none.py")
    with pytest.raises(RuntimeError, match="the folder to start in"):
        server.run("w.pyc", folder=str(tmp_path / "none"))


def test_random_numbers_differ(zygote: type) -> None:
    server = zygote(modules=["random", "uuid", "tempfile", "secrets"])
    program = ("import random, uuid, tempfile, secrets; print(random.random(), random.SystemRandom().random(), uuid.uuid4(), "
               "uuid.uuid1(), tempfile.mktemp(), secrets.token_hex())")
    seen = [server.run("-c", program).out.split() for _ in range(3)]
    for column in zip(*seen):
        assert len(set(column)) == len(column), column


def test_numpy(zygote: type) -> None:
    pytest.importorskip("numpy")
    server = zygote(modules=["numpy"], options=())
    assert server.ready, server.text
    program = "import numpy, sys; print(numpy.random.random(), (numpy.ones((50, 50)) @ numpy.ones((50, 50))).sum())"
    ends = [server.run("-c", program, env={}) for _ in range(3)]
    assert len({end.out for end in ends}) == 3 and all(end.out.endswith(" 125000.0\n") for end in ends), ends


def test_environment_is_the_workers_own(zygote: type) -> None:
    server = zygote(env={"ONLY": "server", "TZ": "UTC", "PATH": "/bin"})
    program = "import os, time; print(sorted(os.environ.items()), time.strftime('%H', time.localtime(0)), os.popen('echo $A').read())"
    assert server.run("-c", program, env={"A": "1", "TZ": "UTC-5"}).out == "[('A', '1'), ('TZ', 'UTC-5')] 05 1\n\n"
    assert server.run("-c", "import os; print(os.environb)", env={"A": "\udcff=x"}).out == "environ({b'A': b'\\xff=x'})\n"
    threads = "import os; print(os.environ.get('OMP_NUM_THREADS'))"
    assert server.run("-c", threads, env={}).out == "None\n"
    assert server.run("-c", threads, env={"OMP_NUM_THREADS": "4"}).out == "4\n"
    assert server.run("-c", "import os; print(os.getcwd())", folder="/proc").out == "/proc\n"


def test_what_modules_left_is_undone(tmp_path: Path, zygote: type) -> None:
    (tmp_path / "untidy.py").write_text(textwrap.dedent("""
        import atexit, gc, logging, os, random, signal, socket, sys, tempfile
        tempfile.gettempdir()
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(s, lambda *a: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        a, b = socket.socketpair()
        a.setblocking(False)
        signal.set_wakeup_fd(a.fileno())
        kept = open('/proc/self/status')
        logging.basicConfig(format='%(message)s')
        print('not yet flushed', end=' ')
        random.seed(1)
        sys.path.insert(0, '/somewhere')
    """))
    server = zygote("-m", ["untidy"], cwd=tmp_path)
    assert server.ready, server.text
    program = textwrap.dedent("""
        import logging, os, random, signal, socket, sys, tempfile, untidy
        print(tempfile.gettempdir(), signal.getsignal(2) is signal.default_int_handler, *map(int, map(signal.getsignal, (15, 17))),
              signal.pthread_sigmask(0, ()), signal.set_wakeup_fd(-1), sys.path[:2])
        logging.warning('logged')
        untidy.a.close()
        untidy.kept.close()
        print(os.listdir('/proc/self/fd'))
    """)
    folder = str(tmp_path)
    end = server.run("-c", program, env={"TMPDIR": folder})
    assert end.code == 0 and end.err == "logged\n"
    lines = end.out.split("\n")
    assert lines[0] == f"{folder} True 0 0 set() -1 ['/somewhere', '']", end
    # The descriptors of the module are there, as nothing.
    assert server.run("-c", "import os; print({os.readlink('/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd')"
                      " if int(f) > 8})").out == "{'/dev/null'}\n"


def test_libraries_of_processes_and_threads_work(tmp_path: Path, zygote: type) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent("""
        import asyncio, concurrent.futures, multiprocessing, os, pickle, subprocess, sys, threading, time

        class Thing:
            def __init__(self, n): self.n = n

        def double(thing): return Thing(thing.n * 2)

        async def several():
            process = await asyncio.create_subprocess_exec('echo', 'sub', stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
            await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(10)))
            return out

        if __name__ == '__main__':
            assert pickle.loads(pickle.dumps(Thing(3))).n == 3
            for method in ('fork', 'spawn', 'forkserver'):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    assert [t.n for t in pool.map(double, map(Thing, range(4)))] == [0, 2, 4, 6], method
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                assert sum(pool.map(lambda n: n * n, range(10))) == 285
            lock, done = threading.RLock(), []
            def work():
                for _ in range(100):
                    with lock, lock:
                        done.append(1)
            threads = [threading.Thread(target=work) for _ in range(4)]
            [t.start() for t in threads]; [t.join() for t in threads]
            assert len(done) == 400
            assert subprocess.check_output([sys.executable, '-S', '-c', 'print(1)']) == b'1\\n'
            assert subprocess.run(['sh', '-c', 'kill -9 $$']).returncode == -9
            pid = os.fork()
            if pid == 0:
                os._exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
            assert asyncio.run(several()) == b'sub\\n'
            print('all', os.getpid() == threading.get_native_id())
    """))
    server = zygote("script.py", ["asyncio", "multiprocessing", "concurrent.futures", "threading", "subprocess"], cwd=tmp_path)
    assert server.ready, server.text
    assert server.run("script.py") == (0, "all True\n", "")


def test_signals_reach_a_worker(zygote: type) -> None:
    server = zygote()
    read, write = os.pipe()
    program = "import os, signal\nsignal.signal(10, lambda *a: os._exit(42))\nos.write(3, b'.')\nsignal.pause()"
    null = os.open(os.devnull, os.O_RDWR)
    for number, code in ((signal.SIGUSR1, 42), (signal.SIGTERM, -15), (signal.SIGINT, -2), (signal.SIGKILL, -9)):
        pidfd = server.start(["-c", program], [null, null, null, write])
        assert os.read(read, 1) == b"."
        signal.pidfd_send_signal(pidfd, number)
        assert wait(pidfd) == code
    for fd in (read, write, null):
        os.close(fd)


def test_imports_that_fail(tmp_path: Path, zygote: type) -> None:
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    for modules, says in ((["no_such_module"], "importing no_such_module failed:\nTraceback"),
                          (["exits"], "SystemExit: 3"), (["no_such_module.x"], "ModuleNotFoundError")):
        server = zygote("-m", modules, cwd=tmp_path)
        assert not server.ready and says in server.text and "zygote" not in server.text, server.text
    assert zygote(modules=["no_such_module?"]).ready


def test_threads_are_refused(tmp_path: Path, zygote: type) -> None:
    (tmp_path / "busy.py").write_text("import threading\nthreading.Thread(target=threading.Event().wait, name='waiter', daemon=True).start()")
    server = zygote("-m", ["json", "busy"], cwd=tmp_path)
    assert not server.ready
    assert "2 threads" in server.text and "Started by: busy" in server.text and "waiter" in server.text, server.text


def test_a_worker_of_the_sdk(tmp_path: Path, zygote: type) -> None:
    (tmp_path / "w.py").write_text("import bullpen\n@bullpen.task\ndef echo(p): print('said'); return bytes(p)\nbullpen.run()\n")
    environment = dict(os.environ, PYTHONPATH=str(SDK))
    server = zygote("w.py", ["bullpen?"], options=(), env=environment, cwd=tmp_path)
    assert server.ready, server.text
    for _ in range(2):
        (r_in, w), (r, w_out) = os.pipe(), os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        pidfd = server.start(["w.py"], [null, null, 2, r_in, w_out], env=dict(environment, BULLPEN_WORKER="v1,in=3,out=4"))
        for fd in (r_in, w_out, null):
            os.close(fd)
        os.write(w, frame(HELLO, body=pairs_of([("worker", b"w"), ("pid", b"1"), ("output", b"0")]), code=1)
                 + frame(TASK, 1, b"payload", 1))
        data = b""
        while not data.endswith(b"payload"):
            part = os.read(r, 1 << 16)
            assert part, data
            data += part
        os.close(w)
        os.close(r)
        length, kind = struct.unpack_from("<IB", data)
        assert kind == HELLO and dict(read_pairs(data[16:16 + length]))["tasks"] == b"echo"
        assert struct.pack("<IB", 7, RESULT) in data and b"said" in data
        assert wait(pidfd) == 0
