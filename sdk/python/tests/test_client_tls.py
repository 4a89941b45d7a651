"""The clients over TLS."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from bullpen import client as api
from client_kinds import KINDS, make
from fake_server import Server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificate, is missing")


@pytest.fixture(scope="module")
def files(tmp_path_factory: Any) -> Path:
    folder: Path = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
def server(files: Path) -> Iterator[Server]:
    one = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "cert.pem", files / "key.pem")
    # The handshake is for the connection's own thread, at its first read.
    one.socket = context.wrap_socket(one.socket, server_side=True, do_handshake_on_connect=False)
    one.url = one.url.replace("http:", "https:")
    with one:
        yield one


@pytest.mark.parametrize("kind", KINDS)
def test_tls(kind: str, server: Server, files: Path) -> None:
    with make(kind, server.url, ca=str(files / "cert.pem"), token="secret-token") as client:
        assert client.run("p", b"x") == b"X"
        large = b"a" * (3 << 20)
        assert client.run("p", large) == large.upper()
        assert [event.kind for event in client.follow("J0")][-1] == "end"
        assert len(list(client.enqueue_many("p", [b"y" * 1000] * 600))) == 600
        assert server.connections == 2  # one of them was for the events
        server.faults = [lambda handler: handler.cut()]
        assert client.get("J0").over


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_trusted(kind: str, server: Server, files: Path) -> None:
    with make(kind, server.url) as client, pytest.raises(api.Unreachable) as caught:
        client.status()
    assert "certificate" in str(caught.value).lower()
    with make(kind, server.url.replace("127.0.0.1", "localhost"), ca=str(files / "cert.pem")) as client:
        with pytest.raises(api.Unreachable):
            client.status()
    assert not server.seen


@pytest.mark.parametrize("kind", KINDS)
def test_tls_on_one_side_only(kind: str, server: Server) -> None:
    with make(kind, server.url.replace("https", "http"), timeout=2.0) as client, pytest.raises(api.Unreachable):
        client.status()
    with Server() as plain:
        with make(kind, plain.url.replace("http", "https"), timeout=2.0) as client, pytest.raises(api.Unreachable):
            client.status()


def test_ca_without_tls() -> None:
    with pytest.raises(ValueError):
        api.Client("http://127.0.0.1:1", ca="x.pem")
