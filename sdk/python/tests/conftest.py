from __future__ import annotations

import signal
import textwrap
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from host import HERE, Host
from zygote_host import Zygote

Start = Callable[..., Host]


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """In the background of a shell SIGINT is ignored, and workers inherit what is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server or token of the person who runs the tests."""
    for name in ("BULLPEN_URL", "BULLPEN_TOKEN", "BULLPEN_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a worker from its source text, or the one of the vectors; it is gone after the test."""
    hosts: List[Host] = []

    def begin(source: str = "", **options: object) -> Host:
        path = HERE / "vector_worker.py"
        if source:
            path = tmp_path / f"worker{len(hosts)}.py"
            path.write_text("import bullpen\n" + textwrap.dedent(source) + "\nbullpen.run(**globals().get('OPTIONS', {}))\n")
        host = Host([str(path)], **options)  # type: ignore[arg-type]
        hosts.append(host)
        return host

    yield begin
    for host in hosts:
        host.kill()


@pytest.fixture
def zygote() -> Iterator[object]:
    made: List[Zygote] = []

    def begin(*args: object, **options: object) -> Zygote:
        made.append(Zygote(*args, **options))  # type: ignore[arg-type]
        return made[-1]

    yield begin
    for one in made:
        one.close()
