"""The examples of the README, as they stand there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bullpen import client as api
from fake_server import Server
from host import HERE

SECTION = (HERE.parent / "README.md").read_text(encoding="utf-8").partition("\n## Client\n")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.mark.parametrize("number,prints", [
    (0, ["J1 False", "<Job J4 of thumbnails>", "state None None", "progress Progress(fraction=0.5", "end None None"]),
    (1, ["[b'1', b'2'] done", "J0 1 None"]),
])
def test_example(number: int, prints: Any, capsys: Any) -> None:
    with Server() as server:
        exec(compile(EXAMPLES[number].replace("http://127.0.0.1:8650", server.url), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert all(line in printed for line in prints), printed


def test_all_is_told() -> None:
    assert len(EXAMPLES) == 2
    for name in [*api.Options.__annotations__, *api.Limits.__annotations__]:
        assert f"`{name}`" in SECTION, name
    for name, kind in vars(api).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert name in SECTION, name
    for name in vars(api.Client):
        if not name.startswith("_") and name not in ("close", "submit", "cancel_run"):
            assert f"`{name}" in SECTION, name


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> Any:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert calls(api.Client) == calls(api.AsyncClient)
    assert calls(api.Job) == calls(api.AsyncJob)
