"""The default address and token of a client, as for `bullpen submit` and other commands."""

from __future__ import annotations

import os
from typing import Optional

from ._http import Target

URL = "http://127.0.0.1:8650"


def address(url: Optional[str]) -> str:
    """The address that was given, that of $BULLPEN_URL, or the usual one."""
    return os.environ.get("BULLPEN_URL", "") or URL if url is None else url


def token_for(target: Target, token: Optional[str], file: Optional[str]) -> Optional[str]:
    """The token that was given or lies in a file, else that of $BULLPEN_TOKEN, or of the file $BULLPEN_TOKEN_FILE.

    One of the environment is not sent where it can be read on the way.
    """
    if token is not None:
        return token or None
    if file:
        return _read(file, "token_file")
    found = os.environ.get("BULLPEN_TOKEN", "").strip()
    if not found and os.environ.get("BULLPEN_TOKEN_FILE"):
        found = _read(os.environ["BULLPEN_TOKEN_FILE"], "$BULLPEN_TOKEN_FILE")
    if found and not target.secure and not _local(target.host):
        raise ValueError(f"the token of the environment would be sent to {target} without TLS, "
                         "where others can read it: use an https:// address, or pass token=")
    return found or None


def _read(file: str, name: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            token = opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}: {error}") from None
    if not token or len(token.split()) > 1:
        raise ValueError(f"{name} {file}: use a file with one token and nothing else")
    return token


def _local(host: str) -> bool:
    import ipaddress  # only where it is needed: it takes a while

    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
