"""Which server a client asks, and as whom, where its caller does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest
from bullpen import client as api
from client_kinds import KINDS, make
from fake_server import Server

HERE = "http://127.0.0.1:1"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        one.token = "Sesame"
        yield one


@pytest.fixture(params=KINDS)
def kind(request: Any) -> Any:
    return request.param


def test_environment(kind: str, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("Sesame\n")
    other = tmp_path / "other"
    other.write_text("Other")
    monkeypatch.setenv("BULLPEN_URL", server.url)
    with make(kind) as client:
        with pytest.raises(api.Unauthorized):
            client.status()
    monkeypatch.setenv("BULLPEN_TOKEN_FILE", str(file))
    with make(kind) as client:
        assert client.status().ready
    monkeypatch.setenv("BULLPEN_TOKEN", "Other")  # goes before the file
    for options in ({}, {"token": ""}, {"token": "Another"}, {"token_file": str(other)}):
        with make(kind, **options) as client:
            with pytest.raises(api.Unauthorized):
                client.status()
    for options in ({"token": "Sesame"}, {"token_file": str(file)}, {"token": "Sesame", "token_file": str(other)}):
        with make(kind, **options) as client:
            assert client.status().ready
    with make(kind, HERE, timeout=0.1) as client:  # what is said goes before the environment
        with pytest.raises(api.Unreachable, match=HERE):
            client.status()
    monkeypatch.setenv("BULLPEN_URL", "")
    with make(kind) as client:
        assert str((client.inner if kind == "async" else client)._target) == "http://127.0.0.1:8650"


@pytest.mark.parametrize("content", ["", "two words", "two\nlines"])
def test_a_file_without_a_token(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(ValueError, match="one token and nothing else"):
        make(kind, token_file=str(file))
    monkeypatch.setenv("BULLPEN_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"\$BULLPEN_TOKEN_FILE.*No such file"):
        make(kind)


def test_a_token_of_the_environment_is_not_sent_in_the_clear(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULLPEN_TOKEN", "Sesame")
    for url in ("http://bullpen:8650", "http://10.1.2.3"):
        with pytest.raises(ValueError, match="without TLS"):
            make(kind, url)
        with make(kind, url, token="Sesame"):
            pass
    for url in ("https://bullpen:8650", "http://localhost:8650", "http://[::1]:8650", "http://127.0.0.2"):
        with make(kind, url):
            pass
