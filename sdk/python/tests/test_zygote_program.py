"""The fork server of Python workers has read and compiled their program; they must run what stands there now."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

from bullpen import _start
from bullpen._registry import registry
from zygote_host import needs_zygote

pytestmark = needs_zygote

SAYS = "import sys\nprint(%r, sys.path[0], __file__)\n"


def test_a_script_that_changed(tmp_path: Path, zygote: type) -> None:
    script = tmp_path / "w.py"
    script.write_text(SAYS % "old")
    server = zygote("w.py", cwd=tmp_path)
    assert server.run("w.py") == (0, f"old {tmp_path} {script}\n", "")
    # As an editor that writes in place, with the same size, and as one that renames.
    info = script.stat()
    script.write_text(SAYS % "new")
    os.utime(script, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert server.run("w.py") == (0, f"new {tmp_path} {script}\n", "")
    other = tmp_path / "other.py"
    other.write_text(SAYS % "old")
    other.replace(script)
    assert server.run("w.py") == (0, f"old {tmp_path} {script}\n", "")
    other.write_text(SAYS % "its")
    assert server.run("other.py") == (0, f"its {tmp_path} {other}\n", "")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "w.py").write_text(SAYS % "old")
    assert server.run("w.py", folder=str(folder)) == (0, f"old {folder} {folder / 'w.py'}\n", "")
    script.write_text("1 +\n")
    end = server.run("w.py")
    assert end.code == 1 and "SyntaxError" in end.err and "<bullpen zygote>" not in end.err


def test_a_link_that_changed(tmp_path: Path, zygote: type) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.py").write_text(SAYS % "same")
    (tmp_path / "now").symlink_to("a")
    path = str(tmp_path / "now" / "w.py")
    server = zygote(path, cwd=tmp_path)
    assert server.run(path) == (0, f"same {tmp_path / 'a'} {path}\n", "")
    (tmp_path / "next").symlink_to("b")
    (tmp_path / "next").replace(tmp_path / "now")
    assert server.run(path) == (0, f"same {tmp_path / 'b'} {path}\n", "")


def test_warnings_of_the_compiler(tmp_path: Path, zygote: type) -> None:
    (tmp_path / "w.py").write_text("x = 1\nprint(x is 1)\n")
    server = zygote("w.py", cwd=tmp_path)
    for _ in range(2):
        end = server.run("w.py")
        assert end == server.exec("w.py") and "SyntaxWarning" in end.err


def test_texts_differ(zygote: type) -> None:
    server = zygote()
    for text in ("print(1)", "print(1)", "print(2)", "import os; 1 / 0", "print(1)"):
        assert server.run("-c", text) == server.exec("-c", text)


def test_a_pipe_as_script(tmp_path: Path, zygote: type) -> None:
    os.mkfifo(tmp_path / "w.py")
    server = zygote("w.py", cwd=tmp_path)
    assert server.ready


def test_a_rehearsal_leaves_nothing() -> None:
    def state() -> object:
        gc.collect()
        return (set(os.listdir("/proc/self/fd")), sys.stdout, sys.stderr, signal.getsignal(signal.SIGURG), dict(os.environ),
                list(registry.entries))

    before = state()
    _start.rehearse(2)
    assert state() == before
